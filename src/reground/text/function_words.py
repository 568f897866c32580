"""Words that say nothing alone."""

_ENGLISH = (
    "a about after all also am an and any are as at be because been before being both but by can could did do does "
    "during each for from had has have he her here him his how i if in into is it its just may me might more most "
    "must my of on only or other our over own same shall she should so some such than that the their them then "
    "there these they this those through to too under until up very was we were what when where which while who "
    "whom whose why will with would you your"
)
FUNCTION_WORDS = frozenset(_ENGLISH.split())
"""English words, whatever the language of the documents: models answer in English too."""
