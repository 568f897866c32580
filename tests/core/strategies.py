"""Hypothesis strategies for the core's values: all fields of every kind, also those that have a default."""

from hypothesis import strategies as st
from pydantic import BaseModel

from reground.core import answers, evidence, language, programs, trajectory

text = st.text(st.characters(codec="utf-8"), max_size=30)
finite = st.floats(allow_nan=False, allow_infinity=False)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | finite | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
_FIELDS = {name: st.dictionaries(text, json, max_size=3) for name in ("data", "metadata")}
_FIELDS |= {"value": json, "fetched": st.none() | st.just("2026-01-01T00:00:00Z")}


def every(kind: type[BaseModel]) -> st.SearchStrategy:
    """Values of a kind, of which no field is left at its default."""
    return st.builds(kind, **{name: _FIELDS.get(name, ...) for name in kind.model_fields})


st.register_type_strategy(float, finite)
st.register_type_strategy(str, text)
for _module in (language, evidence, programs, answers, trajectory):
    for _kind in vars(_module).values():
        if isinstance(_kind, type) and issubclass(_kind, language.Value) and _kind is not language.Value:
            st.register_type_strategy(_kind, every(_kind))
trajectories = st.from_type(trajectory.Trajectory)
