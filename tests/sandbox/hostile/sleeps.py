# expect: timeout
# run: stdin
import time

time.sleep(60)
