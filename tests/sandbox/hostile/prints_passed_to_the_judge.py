# expect: wrong answer
# ruff: noqa
# run: stdin
print("passed")
