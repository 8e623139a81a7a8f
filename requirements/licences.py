"""Prints the licence of every installed package, as its metadata states it: `make licences`."""

from importlib.metadata import Distribution, distributions


def licence(package: Distribution) -> str:
    """What the metadata says: an SPDX expression, else classifiers, else the first line of a text; "unknown" if nothing."""
    said = package.metadata
    if expression := said.get("License-Expression"):
        return str(expression)
    classifiers = [each.split(" :: ")[-1] for each in said.get_all("Classifier", []) if each.startswith("License ::")]
    named = [each for each in classifiers if each != "OSI Approved"]
    return ", ".join(named) or str(said.get("License") or "unknown").strip().splitlines()[0][:60]


if __name__ == "__main__":
    found = {package.metadata["Name"]: (package.version, licence(package)) for package in distributions()}
    for name in sorted(found, key=str.lower):
        print(f"{name:32}{found[name][0]:20}{found[name][1]}")
