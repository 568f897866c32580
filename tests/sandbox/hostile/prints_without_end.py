# expect: output limit
def add(a, b):
    while True:
        print("x" * 1000)
