"""The network `objects`: what it is shown is what is listed, its two forms are one function, and what must not matter does not."""

import numpy as np
import pytest
import torch
from networks.plain_objects import plain_figures, plain_q, plain_v
from networks.scenes import states
from torch import Tensor

from trilith.agents.dqn.policy import observe
from trilith.networks.config import Mask, NetConfig
from trilith.networks.inputs.objects import CLOCK_FEATURES, NODE_FEATURES, PAIR_FEATURES, describe
from trilith.networks.inputs.placements import CLIPS, COLUMNS, FIGURES, LENGTHS, SCALES, SUM_SCALE, Placements, boxes, locate, look_forward
from trilith.networks.inputs.scene_batch import KIND_OF_SLOT, KIND_WIDTHS, KINDS, Floats32, Records, ReplaySchema, SceneBatch
from trilith.networks.q.base import QNet
from trilith.networks.q.graph import GraphNet
from trilith.networks.q.objects import ObjectsNet, look, look_by_tensors
from trilith.world.actions import DiscreteRelative
from trilith.world.scene import BLOCK_HEIGHT, SLOTS, clipped
from trilith.world.tasks import get_task

NETS = {"objects": ObjectsNet, "graph": GraphNet}
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
WIDTHS = np.array(KIND_WIDTHS, np.float32)
SMALL = {"width": 8, "heads": 2, "layers": 1, "pair": 4, "decoder": 8, "message": 4, "token": 8}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def setup(task: str, net: str, mask: Mask = "legal", count: int = 6) -> tuple[QNet, Records]:
    schema = ReplaySchema.of(get_task(task), DiscreteRelative(), mask == "legal")
    return NETS[net](schema, mask), observe(schema, states(task, count))


def indices(net: QNet, action: list[int], count: int) -> Tensor:
    """(count,): the index of an edge action, over and over."""
    return net.schema.index(torch.tensor(action).expand(count, -1))


def shuffled(schema: ReplaySchema, records: Records, order: np.ndarray) -> Records:
    """The records of one size with their objects in another order."""
    n, k = schema.rows, len(order)
    other = records.copy()
    for name in ("pose", "size", "velocity", "role", "sticky"):
        other[name][:, :k] = records[name][:, order]
    for name in ("touch", "glue"):
        bits = np.unpackbits(records[name], axis=1, count=n * n).reshape(-1, n, n)
        bits[:, :k, :k] = bits[:, order][:, :, order]
        other[name] = np.packbits(bits.reshape(len(records), -1), axis=1)
    return other


def of_states(net: ObjectsNet) -> dict[str, Tensor]:
    """The parameters that the value of a state has for itself."""
    return {name: value for name, value in net.named_parameters() if name.startswith("state_")}


def gradients(net: ObjectsNet, values: Tensor, pull: Tensor) -> dict[str, Tensor]:
    """Of the parameters that values (m,) depend on, with a pull (m,) at each."""
    found = torch.autograd.grad(values @ pull, list(net.parameters()), allow_unused=True)
    return {name: grad for (name, _), grad in zip(net.named_parameters(), found, strict=True) if grad is not None}


SIZES = [{"clock": True}, {"width": 24, "heads": 3, "pair": 7, "layers": 1, "decoder": 20, "message": 9, "token": 11}]


@pytest.mark.parametrize("task", ["silhouette", "connecting", "covering_hard"])
@pytest.mark.parametrize("sizes", SIZES)
def test_values_and_gradients_are_those_of_the_plain_form(task: str, sizes: dict[str, int]) -> None:
    schema = ReplaySchema.of(get_task(task), DiscreteRelative(), True, clock="clock" in sizes)
    net = ObjectsNet(schema, "legal", NetConfig(**sizes))
    batch = schema.unpack(observe(schema, states(task, 12)))
    assert len(set(batch.present.sum(axis=1).tolist())) > 1
    mask = net.mask(batch)
    values, expected = net.q(batch)[mask], plain_q(net, batch)[mask]
    torch.testing.assert_close(values, expected, **CLOSE)
    pull = torch.randn(len(values))
    found, wanted = gradients(net, values, pull), gradients(net, expected, pull)
    assert found.keys() == wanted.keys() == dict(net.named_parameters()).keys() - of_states(net).keys()
    for name, other in wanted.items():
        # Contact is seen so sharply that rounding may decide whether a unit is above 0, for a placement or two of thousands.
        assert float((found[name] - other).norm()) < 0.01 * float(other.norm()), name


@pytest.mark.parametrize("task", ["silhouette", "connecting", "covering_hard"])
@pytest.mark.parametrize("sizes", SIZES)
def test_values_of_states_and_their_gradients_are_those_of_the_plain_form(task: str, sizes: dict[str, int]) -> None:
    schema = ReplaySchema.of(get_task(task), DiscreteRelative(), True, clock="clock" in sizes)
    net = ObjectsNet(schema, "legal", NetConfig(**sizes))
    batch = schema.unpack(observe(schema, states(task, 12)))
    assert len(set(batch.present.sum(axis=1).tolist())) > 1
    with torch.no_grad():
        net.state_out.weight *= 10
    values, expected = net.v(batch), plain_v(net, batch)
    assert values.shape == (12,)
    assert float(values.detach().std()) > 0.02, "or there would be nothing to compare"
    torch.testing.assert_close(values, expected, **CLOSE)
    pull = torch.randn(12)
    found, wanted = gradients(net, values, pull), gradients(net, expected, pull)
    assert found.keys() == wanted.keys() >= of_states(net).keys()
    assert not {name.partition(".")[0] for name in found} & {"edge", "base", "seen", "object", "gather", "hidden", "out"}, "no placement"
    for name, other in wanted.items():
        assert float((found[name] - other).norm()) < 1e-3 * float(other.norm()), name


def test_the_value_of_a_state_depends_on_the_sum_over_its_objects_and_on_the_highest_of_them() -> None:
    """By weights that let through one of the two, of one unit each."""
    net, records = setup("silhouette", "objects")
    assert isinstance(net, ObjectsNet)
    batch, decoder = net.schema.unpack(records), net.edge.in_features
    with torch.no_grad():
        objects = net.encode(batch).clamp(min=0)
        unit = int(objects.std(dim=0).argmax())
        for weights in (net.state_hidden.weight, net.state_hidden.bias, net.state_out.weight, net.state_out.bias):
            weights.zero_()
        net.state_out.weight[0, 3] = 2.0
        for column, of in ((unit, lambda each: each.sum() / 8), (decoder + unit, lambda each: each.max())):
            net.state_hidden.weight[3].zero_()
            net.state_hidden.weight[3, column] = 1.0
            wanted = [2.0 * float(of(objects[batch.scene == i, unit])) for i in range(len(batch))]
            assert net.v(batch).tolist() == pytest.approx(wanted, rel=1e-4)
            assert len({round(value, 3) for value in wanted}) > 1


def test_the_value_of_a_state_needs_no_mask_of_legal_actions() -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), True, clock=True)
    net, found = ObjectsNet(schema, "legal", NetConfig(clock=True, **SMALL)), states("covering_hard", 8)
    records, scenes = observe(schema, found), observe(schema.scenes, found)
    assert set(records.dtype.names or ()) - set(scenes.dtype.names or ()) == {"legal"}
    assert schema.scenes.dtype.itemsize < schema.dtype.itemsize
    batch = schema.scenes.unpack(scenes)
    assert batch.legal is None
    values = net.v(batch)
    assert torch.equal(values, net.v(schema.unpack(records)))
    assert net.state_values(scenes).tolist() == values.tolist()
    scenes["steps_left"] += 3
    assert (net.v(schema.scenes.unpack(scenes)) != values).all(), "but how many steps are left"


@pytest.mark.parametrize("task", ["silhouette", "covering_hard", "covering"])
def test_neither_the_order_of_objects_nor_padding_changes_the_value_of_a_state(task: str) -> None:
    net, records = setup(task, "objects", "edges", 20)
    values = net.v(net.schema.unpack(records))
    assert len(set(records["count"].tolist())) > 1
    assert float(values.detach().std()) > 0.01
    for i, count in enumerate(records["count"].tolist()):
        record = records[i : i + 1]
        order = np.random.default_rng(i).permutation(count)
        for same in (record, shuffled(net.schema, record, order)):
            torch.testing.assert_close(net.v(net.schema.unpack(same)), values[i : i + 1], rtol=1e-4, atol=1e-5)


def test_networks_without_a_head_for_it_give_states_no_value() -> None:
    net, records = setup("covering_hard", "graph")
    assert not net.values_states
    assert net.outcomes(net.schema.unpack(records), indices(net, [0, 7, 3, 1], len(records))).state is None
    with pytest.raises(NotImplementedError):
        net.v(net.schema.unpack(records))


def test_a_bare_floor_and_scenes_without_choice_are_valued_too() -> None:
    net, records = setup("covering_hard", "objects")
    assert isinstance(net, ObjectsNet)
    records = records[:2].copy()
    records["count"][0] = 1
    records["legal"] = 0
    for some in (records[:1], records):
        batch = net.schema.unpack(some)
        values = net.q(batch)
        assert not values.any()
        assert torch.isinf(net.best(batch)[1]).all()
        actions = indices(net, [0, 7, 3, 1], len(some))
        taken = net.q_at(batch, actions)
        torch.testing.assert_close(taken, plain_q(net, batch)[:, KIND_OF_SLOT[0], 0, 7], **CLOSE)
        state = net.v(batch)
        torch.testing.assert_close(state, plain_v(net, batch), **CLOSE)
        (values.sum() + taken.sum() + state.sum()).backward()
        assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


@pytest.mark.parametrize("net", NETS)
def test_the_order_of_objects_does_not_matter(net: str) -> None:
    q, records = setup("silhouette", net, "edges", 20)
    record = records[records["count"] == records["count"][0]][:1]
    order = np.random.default_rng(0).permutation(int(record["count"][0]))
    values = q.q(q.schema.unpack(record))
    torch.testing.assert_close(q.q(q.schema.unpack(shuffled(q.schema, record, order))), values[:, :, order], **CLOSE)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("task", ["covering_hard", "covering"])
def test_padding_changes_nothing(net: str, task: str) -> None:
    q, records = setup(task, net)
    together, masks = q.q(q.schema.unpack(records)), q.mask(q.schema.unpack(records))
    assert len(set(records["count"].tolist())) > 1
    for i in range(len(records)):
        alone = q.schema.unpack(records[i : i + 1])
        r = alone.present.shape[1]
        torch.testing.assert_close(together[i : i + 1, :, :r], q.q(alone), **CLOSE)
        assert torch.equal(masks[i : i + 1, :, :r], q.mask(alone))
        assert not masks[i, :, r:].any()


@pytest.mark.parametrize("net", NETS)
def test_the_value_of_one_action_is_the_one_among_all(net: str) -> None:
    q, records = setup("covering_hard", net)
    batch = q.schema.unpack(records)
    actions, values = q.best(batch)
    some = torch.isfinite(values)
    assert some.any()
    torch.testing.assert_close(q.q_at(batch, actions)[some], values[some], **CLOSE)


def test_blocks_of_one_kind_have_one_value() -> None:
    q, records = setup("silhouette", "objects", "edges")
    batch = q.schema.unpack(records)
    first = q.q_at(batch, indices(q, [0, 8, 3, 1], len(batch)))
    for slot in range(7):
        assert torch.equal(q.q_at(batch, indices(q, [slot, 8, 3, 1], len(batch))), first) == (KIND_OF_SLOT[slot] == 0)


def test_the_mask_none_is_refused() -> None:
    with pytest.raises(ValueError, match="choose mask edges or legal"):
        setup("silhouette", "objects", "none")


# ---- what it is shown


def test_the_inputs_are_those_that_are_listed_and_no_others() -> None:
    """Whoever adds an input has to change this list, and with it what the docs say of the network."""
    assert LENGTHS == (
        "centre x less centre x",
        "centre y less centre y",
        "left edge less left edge",
        "right edge less right edge",
        "left edge less right edge",
        "right edge less left edge",
        "centre x less left edge",
        "centre x less right edge",
        "bottom less top",
        "top less bottom",
    )
    assert SCALES == (0.25, 3.0, 15.0, 75.0)
    assert CLIPS == (3.5, 1.0, 1.0, 1.0)
    assert (COLUMNS, NODE_FEATURES, PAIR_FEATURES, CLOCK_FEATURES, FIGURES) == (40, 19, 18, 3, 3)
    net = ObjectsNet(ReplaySchema.of(get_task("silhouette"), DiscreteRelative(), True, clock=True), "legal", NetConfig(clock=True, **SMALL))
    assert net.clock is not None
    read = {"node": 19, "pair": 18, "clock": 3, "seen": 40, "kind": KINDS + 2, "fit": 2}
    assert {name: getattr(net, name).in_features for name in read} == read
    # These read what others say.
    inner = {"bias", "layers", "norm", "reference", "pooled", "object", "edge", "base", "to_token", "gather", "hidden", "out"}
    inner |= {"state_hidden", "state_out"}
    assert {name for name, _ in net.named_children()} == {*read, *inner}


def columns_seen(placed: Placements, box: Floats32) -> Floats32:
    """(m, n, 40): what placements see of each object, read off the compiled layer: one unit for every column, one for its negative."""
    weight = np.concatenate([np.eye(COLUMNS), -np.eye(COLUMNS)]).astype(np.float32)
    found = np.empty((len(placed.x), len(box), COLUMNS), np.float32)
    for j in range(len(box)):
        out = np.empty((len(placed.x), 2 * len(weight)), np.float32)
        silent = np.zeros((1, len(weight)), np.float32)
        look_forward(np.array([0, len(out)]), *placed, np.array([0, 1]), box[j : j + 1], silent, weight, out)
        np.testing.assert_allclose(out[:, : len(weight)], out[:, len(weight) :] * SUM_SCALE, atol=1e-6)  # one object is sum and highest
        found[:, j] = out[:, len(weight) : len(weight) + COLUMNS] - out[:, len(weight) + COLUMNS :]
    return found


def some_placements(count: int, seed: int = 0) -> Placements:
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-7.5, 7.5, count), rng.uniform(0, 6, count)
    return Placements(x.astype(np.float32), y.astype(np.float32), WIDTHS[rng.integers(KINDS, size=count)] / 2)


def test_a_placement_sees_of_an_object_the_lengths_between_them_in_four_scales() -> None:
    """One placement, one object and one column at a time, by the names of the lengths."""
    schema = ReplaySchema.of(get_task("silhouette"), DiscreteRelative(), True)
    arrays = schema.unpack(observe(schema, states("silhouette", 8)))
    box, placed = boxes(arrays), some_placements(20)
    rows = [(*pose, *size) for pose, size in zip(arrays.pose[arrays.present].tolist(), arrays.size[arrays.present].tolist(), strict=True)]
    assert any(angle for _, _, angle, _, _ in rows)
    found = columns_seen(placed, box)
    for (x, y, half), columns in zip(zip(*(each.tolist() for each in placed), strict=True), found, strict=True):
        mine = {"centre x": x, "centre y": y, "left edge": x - half, "right edge": x + half}
        mine |= {"bottom": y - BLOCK_HEIGHT / 2, "top": y + BLOCK_HEIGHT / 2}
        for (ox, oy, angle, w, h), seen in zip(rows, columns, strict=True):
            across = (w * abs(np.cos(angle)) + h * abs(np.sin(angle))) / 2
            up = (w * abs(np.sin(angle)) + h * abs(np.cos(angle))) / 2
            other = {"centre x": ox, "centre y": oy, "left edge": ox - across, "right edge": ox + across, "bottom": oy - up, "top": oy + up}
            lengths = [mine[one] - other[two] for one, two in (name.split(" less ") for name in LENGTHS)]
            wanted = [min(max(scale * each, -clip), clip) for scale, clip in zip(SCALES, CLIPS, strict=True) for each in lengths]
            assert seen.tolist() == pytest.approx(wanted, abs=1e-3)


def test_where_a_placement_and_all_objects_are_together_is_not_seen() -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), True)
    box, placed = boxes(schema.unpack(observe(schema, states("covering_hard", 6)))), some_placements(30)
    dx, dy = np.float32(1.75), np.float32(-0.5)
    moved = box + np.array([dx, dy, dx, dx, dy, dy], np.float32)
    there = columns_seen(Placements(placed.x + dx, placed.y + dy, placed.half), moved)
    np.testing.assert_allclose(there, columns_seen(placed, box), atol=1e-3)
    alone = columns_seen(Placements(placed.x + dx, placed.y + dy, placed.half), box)
    assert (np.abs(alone - there) > 0.1).any(axis=-1).all(), "moved by itself it sees something else"


def every_action(schema: ReplaySchema, records: Records) -> tuple[np.ndarray, np.ndarray]:
    """(m,) and (m, 4): the scene of each action that the mask allows, and the action."""
    scene, kind, ref, offset = schema.unpack(records).legal.nonzero()  # type: ignore[union-attr]
    slots = np.array([KIND_OF_SLOT.tolist().index(k) for k in range(KINDS)])
    return scene, np.stack([slots[kind], SLOTS + ref, offset, np.zeros_like(ref)], axis=1)


def located(schema: ReplaySchema, records: Records, scene: np.ndarray, actions: np.ndarray, mirror: np.ndarray | None = None) -> Placements:
    slot, receiver, offset, _ = actions.T
    return locate(
        schema.unpack(records, mirror), schema.offsets, WIDTHS, scene, KIND_OF_SLOT[slot], receiver - SLOTS, offset.astype(np.float32)
    )


@pytest.mark.parametrize("task", ["silhouette", "connecting"])
def test_a_placement_is_where_its_action_puts_the_block(task: str) -> None:
    schema, found = ReplaySchema.of(get_task(task), DiscreteRelative(), True), states(task, 6)
    records = observe(schema, found)
    scene, actions = every_action(schema, records)
    placed = located(schema, records, scene, actions)
    assert len(actions) > 500
    for i in np.random.default_rng(0).permutation(len(actions))[:300].tolist():
        state = found[scene[i]]
        wanted = schema.decode(state.scene, actions[i].tolist())
        assert (placed.x[i], placed.y[i]) == pytest.approx(clipped(wanted.x, wanted.y), abs=1e-4)
        assert 2 * placed.half[i] == pytest.approx(state.scene.size[wanted.slot, 0])


def mirrored_columns(columns: Floats32, swapped: list[int], negated: list[int]) -> Floats32:
    """Columns in another order, some with the other sign."""
    signs = np.ones(len(swapped), np.float32)
    signs[negated] = -1
    return columns[..., swapped] * signs


@pytest.mark.parametrize("task", ["silhouette", "covering"])
def test_a_mirrored_placement_sees_the_mirrored_features(task: str) -> None:
    schema = ReplaySchema.of(get_task(task), DiscreteRelative(), True)
    records, swap = observe(schema, states(task, 4)), np.ones(4, dtype=bool)
    scene, actions = every_action(schema, records)
    some = np.sort(np.random.default_rng(0).permutation(len(scene))[:200])
    scene, actions = scene[some], actions[some]
    other = schema.mirror_actions(actions, swap[scene])
    assert (other != actions).any()
    here, there = located(schema, records, scene, actions), located(schema, records, scene, other, swap)
    arrays, mirrored = schema.unpack(records), schema.unpack(records, swap)
    # Left and right change places and signs, above and below stay.
    order = [place + 10 * scale for scale in range(4) for place in (0, 1, 3, 2, 5, 4, 7, 6, 8, 9)]
    signs = [place + 10 * scale for scale in range(4) for place in (0, 2, 3, 4, 5, 6, 7)]
    for b in range(4):
        first, end = arrays.first[b : b + 2]
        mine, theirs = (
            columns_seen(Placements(*(each[scene == b] for each in placed)), boxes(seen)[first:end])
            for placed, seen in ((here, arrays), (there, mirrored))
        )
        assert mine.size
        np.testing.assert_allclose(theirs, mirrored_columns(mine, order, signs), atol=2e-3)
    nodes, lengths, links = describe(arrays)
    nodes2, lengths2, links2 = describe(mirrored)
    np.testing.assert_allclose(
        nodes2, mirrored_columns(nodes, [0, 1, 2, 3, 4, 5, 7, 6, *range(8, NODE_FEATURES)], [0, 3, 6, 7, 10]), atol=1e-5
    )
    np.testing.assert_allclose(lengths2, mirrored_columns(lengths, [0, 1, 3, 2, 5, 4, 6, 7], [0, 2, 3, 4, 5]), atol=1e-5)
    assert np.array_equal(links, links2)


# ---- its two forms, and what it says of given actions


def looked(counts: list[int], shuffle: bool, units: int = 5) -> None:
    """Compares both forms of what placements see, so many of them in each scene, by values and by gradients."""
    schema, m = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), True), sum(counts)
    batch = schema.unpack(observe(schema, states("covering_hard", len(counts))))
    assert len(counts) == 1 or len(set(batch.count.tolist())) > 1
    placed = Placements(*(torch.from_numpy(each) for each in some_placements(m)))
    scene = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    if shuffle:
        scene = scene[torch.randperm(m)]
        assert m < 3 or (scene[1:] < scene[:-1]).any()
    given = [torch.randn(len(batch.scene), units, requires_grad=True), torch.randn(units, COLUMNS, requires_grad=True)]
    compiled, tensors = (form(placed, scene, batch, *given) for form in (look, look_by_tensors))
    assert compiled.shape == (m, 2 * units)
    assert torch.equal(look(placed, scene, batch, *given), compiled), "on the CPU it is the compiled form"
    torch.testing.assert_close(compiled, tensors, **CLOSE)
    pull = torch.randn_like(compiled)
    for one, two in zip(torch.autograd.grad(compiled, given, pull), torch.autograd.grad(tensors, given, pull), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("counts", [[1], [15], [16], [17], [1, 15, 0, 16, 17, 0], [0, 33, 1, 0, 5, 16]], ids=str)
def test_what_placements_see_is_the_same_in_compiled_loops_and_in_tensors(counts: list[int]) -> None:
    looked(counts, shuffle=False)


@pytest.mark.parametrize("counts", [[1, 1, 1], [1, 15, 0, 16, 17, 0], [0, 33, 1, 0, 5, 16]], ids=str)
def test_the_same_holds_for_scenes_out_of_order(counts: list[int]) -> None:
    looked(counts, shuffle=True)


def test_no_placement_at_all_sees_nothing_in_both_forms() -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), True)
    batch = schema.unpack(observe(schema, states("covering_hard", 3)))
    none, scene = Placements(*(torch.zeros(0) for _ in range(3))), torch.zeros(0, dtype=torch.long)
    for form in (look, look_by_tensors):
        given = [torch.randn(len(batch.scene), 5, requires_grad=True), torch.randn(5, COLUMNS, requires_grad=True)]
        seen = form(none, scene, batch, *given)
        assert seen.shape == (0, 10)
        assert not any(grad.any() for grad in torch.autograd.grad(seen.sum(), given, allow_unused=True) if grad is not None)


def actions_in(batch: SceneBatch, net: ObjectsNet) -> tuple[Tensor, Tensor]:
    """Some actions (m, 4) that the mask allows and the scenes they are in, out of order, some scenes several times and some never."""
    which = net.mask(batch)[1:].nonzero()
    which = which[torch.randperm(len(which))[:40]]
    slots = torch.tensor([KIND_OF_SLOT.tolist().index(k) for k in range(KINDS)])
    scene, kind, ref, output = which.unbind(1)
    return torch.stack([slots[kind], SLOTS + ref, output // 2, output % 2], dim=1), scene + 1


def test_value_reward_and_end_of_given_actions_and_the_values_of_their_states_are_those_of_the_plain_form() -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), True)
    net = ObjectsNet(schema, "legal", NetConfig(**SMALL))
    batch = schema.unpack(observe(schema, states("covering_hard", 8)))
    actions, scenes = actions_in(batch, net)
    q, reward, end, state = net.outcomes(batch, schema.index(actions), scenes)
    slot, receiver, offset, sticky = actions.unbind(1)
    later, *others = plain_figures(net, batch)[scenes, net.kind_of_slot[slot], receiver - SLOTS, offset, sticky].unbind(-1)
    torch.testing.assert_close(q, later + others[0], **CLOSE)
    torch.testing.assert_close(reward, others[0], **CLOSE)
    torch.testing.assert_close(end, others[1], **CLOSE)
    torch.testing.assert_close(state, plain_v(net, batch), **CLOSE)
    torch.testing.assert_close(net.q_at(batch, schema.index(actions), scenes), q)
    assert len({round(float(value), 4) for value in q.detach()}) > 5


def test_an_error_of_a_value_teaches_what_comes_later_and_not_the_reward() -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), True)
    net = ObjectsNet(schema, "legal", NetConfig(**SMALL))
    batch = schema.unpack(observe(schema, states("covering_hard", 8)))
    actions, scenes = actions_in(batch, net)
    said = net.outcomes(batch, schema.index(actions), scenes)
    for figure, number in zip((said.q, said.reward, said.end), (0, 1, 2), strict=True):
        assert figure is not None
        grad = torch.autograd.grad(figure.sum(), net.out.weight, retain_graph=True)[0].view(FIGURES, 2, -1)
        assert [bool(grad[k].any()) for k in range(FIGURES)] == [k == number for k in range(FIGURES)]
        own = torch.autograd.grad(figure.sum(), list(of_states(net).values()), retain_graph=True, allow_unused=True)
        assert own == (None,) * 4, "nor the value of the state"
