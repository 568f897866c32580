# expect: exception, memory, output limit
# ruff: noqa
def add(a, b):
    for number in range(10_000):
        with open(f"/tmp/{number}", "wb") as file:
            file.write(bytes(1 << 24))
    return a + b
