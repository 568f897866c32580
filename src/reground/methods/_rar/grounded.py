"""RaR for small models: drafted from evidence, and revised in one call (docs/reproduction shows what it is worth)."""

from __future__ import annotations

GROUNDED: dict[str, object] = {
    "ground": 3,
    "k": 3,
    "max_steps": 0,
    "max_rounds": 2,
    "m": 2,
    "query_from": "names",
    "reflect": False,
    "reasoned": False,
    "revise": "afresh",
    "accept": "surer",
    "evidence": "all",
}
"""A draft from memory misleads the queries of a model that knows little, its reflections find no errors, and a refinement clings
to what it refines. So the draft rests on what the question finds, the model names what to read next, one call answers again from
everything, without the answer before, and of both answers the surer one stays."""
