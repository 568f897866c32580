# expect: syntax, exception, memory
# ruff: noqa
# repeat: 20000
# append: (
