"""English words that carry no topic: left out of lexical queries and of the words a model answers with."""

QUERY_STOPWORDS = frozenset(
    """
    a about all also am an and any are as at be been but by can could did do does for from had has have he her
    his how i if in into is it its just me more my no nor not of on or our out she should so some than that the
    their them then there these they this those to too up us was we were what when where which who why will with
    would you your
    """.split()
)
"""Those that are left out of a query, too: words that hardly ever tell one text from another."""

STOPWORDS = QUERY_STOPWORDS | frozenset(
    """
    above after again aren't because before being below between both can't cannot couldn't didn't doesn't doing
    don't down during each etc few further get got hadn't hasn't haven't having he's here here's hers herself
    him himself how's i'd i'll i'm i've isn't it's itself let's may might most must myself off once one only
    other ought ours ourselves over own same shall she's shouldn't such that's theirs themselves there's they'd
    they'll they're they've through under until upon very wasn't we'd we'll we're we've weren't what's when's
    where's while who's whom why's won't wouldn't you'd you'll you're you've yours yourself yourselves
    """.split()
)
