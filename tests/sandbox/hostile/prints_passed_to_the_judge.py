# expect: wrong answer
# run: stdin
print("passed")
