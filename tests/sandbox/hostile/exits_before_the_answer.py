# expect: wrong answer
# run: stdin
import os

os._exit(0)
