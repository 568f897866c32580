# expect: syntax, exception, memory
# repeat: 20000
(
