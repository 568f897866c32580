# expect: syntax
# ruff: noqa
# append: def add(a, b:
