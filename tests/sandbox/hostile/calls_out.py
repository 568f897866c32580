# expect: exception
# ruff: noqa
import socket


def add(a, b):
    socket.create_connection(("1.1.1.1", 53), timeout=3)
    return a + b
