"""English words that carry no topic: left out of the words a model answers with and of lexical queries."""

STOPWORDS = frozenset(
    """
    a about above after again all also am an and any are aren't as at be because been before being below between
    both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each etc few for
    from further get got had hadn't has hasn't have haven't having he he's her here here's hers herself him himself
    his how how's i i'd i'll i'm i've if in into is isn't it it's its itself just let's may me might more most must
    my myself no nor not of off on once one only or other ought our ours ourselves out over own same shall she she's
    should shouldn't so some such than that that's the their theirs them themselves then there there's these they
    they'd they'll they're they've this those through to too under until up upon us very was wasn't we we'd we'll
    we're we've were weren't what what's when when's where where's which while who who's whom why why's will with
    won't would wouldn't you you'd you'll you're you've your yours yourself yourselves
    """.split()
)
