"""Mistakes that were planted after the last form was added: no form is made for these.

They say how well the examiner does on what it has not been taught.
"""

from practice.versions import MODULES, answers

VERSIONS = {
    f"{name}.{version}": value
    for name, module in MODULES.items()
    for version, value in vars(module).items()
}
UNSEEN = answers("unseen.toml", "unseen", VERSIONS)
