"""Networks in the form that acts: the same values as the form that learns, without torch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from networks.plain_objects import plain_q, plain_v
from networks.scenes import choices, states

from trilith.agents.dqn.policy import observe
from trilith.networks.config import Mask, NetConfig
from trilith.networks.inference.registry import ACTING
from trilith.networks.inputs.scene_batch import Records, ReplaySchema
from trilith.networks.q.base import QNet
from trilith.networks.q.function import QFunction
from trilith.networks.q.objects import ObjectsNet
from trilith.networks.q.registry import NETWORKS, make_qnet
from trilith.world.actions import DiscreteRelative, make_discrete
from trilith.world.tasks import TASKS, get_task

CONFIGS = {
    "default": NetConfig(),
    "told of steps": NetConfig(clock=True),
    "odd sizes": NetConfig(width=18, heads=3, pair=7, layers=1, decoder=21, message=5, token=9),
    "pixels": NetConfig("pixel-attention"),
    "pixels, odd sizes": NetConfig("pixel-attention", width=18, heads=3, pair=7, layers=1, decoder=21),
}


def both(task: str, config: NetConfig, mask: Mask = "legal") -> tuple[QNet, QFunction, Records]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    schema = ReplaySchema.of(get_task(task), DiscreteRelative(), mask == "legal", pictures=config.pictures, clock=config.clock)
    net, acting = make_qnet(config, schema, mask), ACTING[config.network](schema, mask, config)
    acting.load(net.weights())
    return net, acting, observe(schema, states(task, 20))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("mask", ["legal", "edges"])
def test_values_masks_and_choices_are_those_of_the_form_that_learns(task: str, config: NetConfig, mask: Mask) -> None:
    net, acting, records = both(task, config, mask)
    assert len(set(records["count"].tolist())) > 1
    values, allowed = acting.values(records)
    expected, wanted = net.values(records)
    assert (allowed == wanted).all()
    assert np.abs(values - expected)[allowed].max() < 1e-4
    rngs = [np.random.default_rng(i) for i in range(len(records))], [np.random.default_rng(i) for i in range(len(records))]
    random = np.arange(len(records)) % 2 == 0
    for mine, theirs in zip(choices(acting, records, random, rngs[0]), choices(net, records, random, rngs[1]), strict=True):
        assert (mine is None) == (theirs is None)
        assert mine is None or mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("task", ["silhouette", "connecting"])
def test_both_forms_with_a_clock_are_the_plain_form_and_see_the_steps_left(task: str) -> None:
    net, acting, records = both(task, NetConfig(clock=True, layers=2))
    assert isinstance(net, ObjectsNet)
    with torch.no_grad():
        for layer in (net.clock, net.state_out):
            assert layer is not None
            layer.weight *= 10
    acting.load(net.weights())
    told = []
    for shift in (0, 4):
        records["steps_left"] += shift
        batch = net.schema.unpack(records)
        with torch.no_grad():
            plain = plain_q(net, batch).numpy(), plain_v(net, batch).numpy()
        for form in (net, acting):
            values, allowed = form.values(records)
            np.testing.assert_allclose(values[allowed], plain[0][allowed], rtol=1e-4, atol=1e-4)
            scenes = records[list(net.schema.scenes.dtype.names or ())].astype(net.schema.scenes.dtype)
            np.testing.assert_allclose(form.state_values(scenes), plain[1], rtol=1e-4, atol=1e-4)
        told.append(plain)
    for before, after in zip(*told, strict=True):
        assert np.abs(after - before).max() > 0.01, "or the clock would be no input"


@pytest.mark.parametrize("config", [NetConfig(clock=True), NetConfig("pixel-attention")], ids=["objects", "pixels"])
def test_values_do_not_depend_on_the_scenes_beside_them_to_the_last_bit(config: NetConfig) -> None:
    _, acting, records = both("covering_hard", config)
    together, _ = acting.values(records)
    for i, count in enumerate(records["count"].tolist()):
        alone, _ = acting.values(records[i : i + 1])
        assert (alone[0] == together[i, :, :count]).all()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["default", "told of steps", "odd sizes"])
def test_values_of_states_are_those_of_the_form_that_learns(task: str, name: str) -> None:
    net, acting, _ = both(task, CONFIGS[name])
    assert net.values_states
    assert acting.values_states
    records = observe(net.schema.scenes, states(task, 20))
    assert len(set(records["count"].tolist())) > 1
    values, expected = acting.state_values(records), net.state_values(records)
    assert values.shape == expected.shape == (20,)
    assert values.dtype == expected.dtype == np.float32
    assert expected.std() > 0.01
    assert np.abs(values - expected).max() < 1e-5
    for i in range(20):
        assert acting.state_values(records[i : i + 1])[0] == values[i], "whatever is beside it, to the last bit"


def test_networks_without_a_head_for_it_give_states_no_value_in_either_form() -> None:
    for form in both("covering_hard", NetConfig("pixel-attention"))[:2]:
        assert not form.values_states
        with pytest.raises(NotImplementedError):
            form.state_values(observe(form.schema.scenes, states("covering_hard", 2)))


@pytest.mark.parametrize("network", ACTING)
def test_a_scene_in_which_nothing_is_left_to_choose_leaves_the_others_alone(network: str) -> None:
    _, acting, records = both("connecting", NetConfig(network))
    expected, _ = acting.values(records)
    used = records.copy()
    used["available"][0] = used["legal"][0] = 0
    values, allowed = acting.values(used)
    assert not allowed[0].any()
    assert (values[1:] == expected[1:]).all()
    assert choices(acting, used, np.zeros(len(used), bool), [np.random.default_rng(0)] * len(used))[0] is None


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_parameters_are_those_of_the_form_that_learns(config: NetConfig) -> None:
    net, acting, _ = both("silhouette", config)
    weights = acting.weights()
    assert {name: value.shape for name, value in weights.items()} == {name: value.shape for name, value in net.weights().items()}
    assert all((weights[name] == value).all() for name, value in net.weights().items())
    with pytest.raises(ValueError, match=r"^hidden\.weight is missing$"):
        acting.load({name: value for name, value in weights.items() if name != "hidden.weight"})
    with pytest.raises(ValueError, match=r"^extra is not of this network$"):
        acting.load(weights | {"extra": np.zeros(1, np.float32)})
    wider = make_qnet(replace(config, decoder=config.decoder + 1), net.schema, "legal").weights()
    with pytest.raises(ValueError, match=r"^\w+\.weight has shape .* this network has"):
        acting.load(wider)
    assert all((value == weights[name]).all() for name, value in acting.weights().items()), "a refusal changes nothing"


@pytest.mark.parametrize("network", ACTING)
def test_both_forms_refuse_the_same(network: str) -> None:
    absolute = ReplaySchema.of(get_task("covering"), make_discrete("absolute", offsets=15, heights=8, widths=8), False)
    relative = ReplaySchema.of(get_task("covering"), DiscreteRelative(), False)
    for schema, mask in ((absolute, "edges"), (relative, "none")):
        said = []
        for make in (ACTING[network], lambda schema, mask, net: make_qnet(net, schema, mask)):
            with pytest.raises(ValueError, match="this network values") as error:
                make(schema, mask, NetConfig(network))
            said.append(str(error.value))
        assert said[0] == said[1]
    assert set(ACTING) <= set(NETWORKS)
    assert NetConfig().network in ACTING, "what is shipped acts without torch"


def test_both_forms_of_objects_refuse_offsets_along_y() -> None:
    schema = ReplaySchema.of(get_task("covering"), make_discrete("relative_xy", offsets=5, heights=8, widths=8), True)
    for make in (ACTING["objects"], lambda schema, mask, net: make_qnet(net, schema, mask)):
        with pytest.raises(ValueError, match="values offsets along x only: choose actions relative, or network graph"):
            make(schema, "legal", NetConfig())
