# expect: syntax
def add(a, b:
    return 5
