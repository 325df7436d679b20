"""Rules that read a label off any text. They are precise and not complete: None wherever a wrong label is possible."""

import re
from collections import Counter

from text_words import NEGATIONS, any_of, clean, first_if_word, lexicon, lower, named, sentence, stands, unless, words


def place_kind(text: str) -> str | None:
    """Give the one room, building or spot that something is said to be in, at or from."""
    places = lexicon("place_kind")
    where = r"\b(?:in|at|from|into|inside|outside|near) (?:the|my|our|a|an|his|her|their)"
    pattern = rf"{where} ({any_of(places)})\b(?! [a-z])"
    kinds = {places[place] for place in re.findall(pattern, sentence(text))}
    return kinds.pop() if len(kinds) == 1 and named("place_kind")(text) else None


def asks(text: str) -> str | None:
    """Tell whether a question mark or a question's opening word is there."""
    if "?" in clean(text):
        return "something is asked"
    doubtful = set("who whom whose what which when where why how wonder wondering ask asked asking anyone".split())
    return unless(text, doubtful, "nothing is asked")


def number(text: str) -> str | None:
    """Give the one number of a text, in digits or as a word from two to twelve."""
    digits = re.findall(r"(?<![\w.,/-])\d+(?:[.,]\d+)*(?![\w/-])", clean(text))
    spelled = [word for word in lower(text) if word in _NUMBER_WORDS]
    rest = sum(sign.isdigit() for sign in clean(text)) - sum(sign.isdigit() for digit in digits for sign in digit)
    return next(iter(digits + spelled)) if len(digits) + len(spelled) == 1 and not rest else None


def money(text: str) -> str | None:
    """Tell whether prices or payment are spoken of."""
    if re.search(_MONEY, sentence(text)):
        return "money is mentioned"
    return unless(text, _MONEY_DOUBTS, "money is not mentioned")


def time_unit(text: str) -> str | None:
    """Give the one unit of the spans of time in a text; ages are no spans."""
    if re.search(r"\b(?:years?|months?|weeks?|days?)[ -]olds?\b|\bold\b", sentence(text)):
        return None
    many = r"(?:\d+|few|several|many|couple of|couple|" + "|".join(_NUMBER_WORDS) + ")"
    units = re.findall(rf"\b{many} (minute|hour|day|week|month|year|decade)s\b", sentence(text))
    others = {word.removesuffix("s") for word in lower(text)} & set(_UNITS)
    return f"{units[0]}s" if units and others == set(units) and len(set(units)) == 1 else None


def person_of_speech(text: str) -> str | None:
    """Tell first, second and third person apart by the pronouns."""
    said = {word.split("'")[0] for word in lower(text)} - ({"us"} if "US" in words(text) else set())
    if said & _FIRST:
        return "the writer speaks of themselves"
    if said & _SECOND:
        return "the reader is spoken to"
    return "other people are spoken of" if said & _THIRD else None


def tense(text: str) -> str | None:
    """Tell past, present and future apart where all telling verbs agree."""
    said = lower(text)
    ahead = bool(re.search(r"\b(?:will|won't|\w+'ll|going to (?!the|a|my|be a\b)\w+)\b", sentence(text)))
    back = any(word in _PAST for word in said) or bool(re.search(r"\b(?:i|we|he|she|they|it) \w+ed\b", sentence(text)))
    now = any(word in _PRESENT for word in said)
    if [ahead, back, now].count(True) != 1 or (not back and any(word.endswith("ed") for word in said)):
        return None
    return "the past" if back else "the future" if ahead else "the present"


def length(text: str) -> str | None:
    """Tell short, medium and long texts apart, with gaps between them: to 10, 30 to 60, from 120 words."""
    count = len(words(text))
    if 1 <= count <= 10:
        return "short"
    if 30 <= count <= 60:
        return "of medium length"
    return "long" if count >= 120 else None


def tone(text: str) -> str | None:
    """Tell writing with exclamation marks or words in capitals from writing without."""
    shouted = [word for word in words(text) if len(word) > 2 and word.isupper()]
    if clean(text).count("!") > 1 or len(shouted) > 2:
        return "loud"
    return "calm" if "!" not in clean(text) and not shouted and len(words(text)) > 4 else None


def negation(text: str) -> str | None:
    """Tell whether something is denied."""
    if re.search(r"\b(?:not|never|nothing|nobody|cannot|\w+n't)\b|\bno (?!\d|\.)", sentence(text)):
        return "something is denied"
    doubtful = NEGATIONS | {"lack", "lacks", "nah", "nope", "dont", "cant", "wont", "didnt", "doesnt", "isnt", "nt"}
    return unless(text, doubtful, "nothing is denied")


def comparison(text: str) -> str | None:
    """Tell whether something is measured against something else."""
    comparative = rf"(?:{'|'.join(_COMPARATIVES)}|(?:more|less) [a-z]+(?<!likely)) than\b"
    if re.search(rf"\b{comparative}(?! \d)|\bcompared (?:to|with)\b|\bin comparison\b", sentence(text)):
        return "compared with something else"
    return unless(text, _COMPARISON_DOUBTS | set(_COMPARATIVES), "not compared")


def recommendation(text: str) -> str | None:
    """Tell advice to do the same from a warning."""
    said = sentence(text)
    against = re.search(_AGAINST, said)
    favour = re.search(_IN_FAVOUR, re.sub(_AGAINST, " ", said))
    if bool(against) == bool(favour) or "hesita" in said:
        return None
    return "advised against" if against else "recommended"


def bought_for(text: str) -> str | None:
    """Give the one person somebody bought something for."""
    said = sentence(text)
    people = {**lexicon("family_member"), **{friend: friend for friend in _FRIENDS}}
    mentions = re.findall(rf"{_BOUGHT} for (?:my|our) {_BETWEEN}({any_of(people)})\b(?!'s| and| ?- ?in)", said)
    chosen = {people[person] for person in mentions}
    if not chosen and re.search(rf"{_BOUGHT} for myself\b(?! and)", said):
        return "the buyer"
    return chosen.pop() if len(chosen) == 1 else None


def problem(text: str) -> str | None:
    """Give the one fault that is reported."""
    said = sentence(text)
    faults = {
        label for label, pattern in _FAULTS.items() for match in re.finditer(pattern, said) if stands(said, match)
    }
    return faults.pop() if len(faults) == 1 else None


def request(text: str) -> str | None:
    """Tell whether somebody is asked to do something."""
    if re.search(_REQUEST, sentence(text)):
        return "help or action is asked for"
    doubtful = set("please help need needed you let must should want wish advise tell how someone anyone".split())
    return None if "?" in clean(text) else unless(text, doubtful, "nobody is asked to do anything")


def politeness(text: str) -> str | None:
    """Tell thanks and apologies from texts without either."""
    said = sentence(text)
    thanks = re.search(r"\b(?:thank you|thanks(?! to)|much appreciated|i appreciate|grateful)\b", said)
    apology = re.search(_APOLOGY, said)
    if thanks or apology:
        return None if thanks and apology else "thanks" if thanks else "an apology"
    doubtful = set("thank thanks thx sorry please pardon excuse welcome cheers appreciate appreciated apology".split())
    return unless(text, doubtful, "neither thanks nor an apology")


def swearing(text: str) -> str | None:
    """Tell foul language from clean language."""
    if re.search(r"\b(?:fuck\w*|\w*shit(?:s|ty)?|bitch\w*|assholes?|bastards?)\b", sentence(text)):
        return "foul language"
    return None if "*" in clean(text) else unless(text, _MILD_OATHS, "clean language")


def certainty(text: str) -> str | None:
    """Tell hedged statements from firm ones."""
    said = sentence(text)
    unsure = re.search(r"\b(?:maybe|perhaps|probably|possibly|i guess|not sure|i suppose|might be)\b", said)
    firm = re.search(r"\b(?:definitely|certainly|absolutely|undoubtedly|no doubt|without a doubt)\b", said)
    return None if bool(unsure) == bool(firm) else "unsure" if unsure else "certain"


def first_word(text: str) -> str | None:
    """Give the first word, unless it is a number."""
    return first_if_word(lower(text)[:1])


def last_word(text: str) -> str | None:
    """Give the last word, unless it is a number."""
    return first_if_word(lower(text)[-1:])


def longest_word(text: str) -> str | None:
    """Give the one word of seven letters or more that is longer than all others."""
    ordered = sorted({word for word in lower(text) if word[0].isalpha()}, key=lambda word: (-len(word), word))
    if not ordered or len(ordered[0]) < 7 or (len(ordered) > 1 and len(ordered[1]) == len(ordered[0])):
        return None
    return ordered[0]


def main_word(text: str) -> str | None:
    """Give the one content word that occurs at least twice and more often than all others."""
    stop = lexicon("stopwords")
    counts = Counter(word for word in lower(text) if len(word) > 3 and word.isalpha() and word not in stop)
    ordered = counts.most_common(2)
    if not ordered or ordered[0][1] < 2 or (len(ordered) > 1 and ordered[1][1] == ordered[0][1]):
        return None
    return ordered[0][0]


def sentence_count(text: str) -> str | None:
    """Give the number of sentences where no sign leaves it open: one to three, or many from five on."""
    said = clean(text)
    if not re.search(r"[.!?]$", said) or re.search(_NO_SENTENCE_END, said, re.IGNORECASE):
        return None
    parts = [part for part in re.split(r"(?: ?[.!?])+(?: |$)", said) if part]
    if any(len(part.split()) < 2 or part[0].islower() for part in parts):
        return None
    return {1: "one", 2: "two", 3: "three", 4: None}.get(len(parts), "many")


_NUMBER_WORDS = "two three four five six seven eight nine ten eleven twelve".split()
_UNITS = "minute hour day week month year decade".split()
_MONEY = r"[$\u00a3\u20ac] ?\d|\b(?:pric(?:e|es|ed|ey)|expensive|money|dollars?|bucks|refunds?|fees?)\b"
_MONEY_DOUBTS = set(
    "price pay pays paid paying cheap cheaper cheaply cost costs costly worth value deal buy buying bought purchase "
    "purchased sell sells selling sold sale sales charge charged charges bank card cards account cash rich poor spend "
    "spent salary currency transfer budget economic economy gold coin coins cent cents penny tax taxes afford "
    "affordable bargain payment payments euro euros pound pounds loan debt wage wages income fund funds overpriced "
    "top-up bill bills credit debit million billion exchange withdraw balance".split()
)
_APOLOGY = r"\b(?:(?:i'm|i am|we are|we're) (?:so |very |really )?sorry|my apologies|i apologi[sz]e)\b"
_MILD_OATHS = set(
    "hell ass damn damned dammit crap crappy piss pissed suck sucks sucked dick screw screwed wtf bloody arse".split()
)
_FIRST = set("i me my mine myself we us our ours ourselves".split())
_SECOND = set("you your yours yourself u ur".split())
_THIRD = set("he she they him her them his hers their theirs himself herself themselves".split())
_PAST = set(
    "was were had did didn't wasn't weren't hadn't went came took bought said told gave knew felt broke saw began "
    "became wrote stood sat died ran thought brought".split()
)
_PRESENT = set(
    "is are am isn't aren't do does don't doesn't has have hasn't haven't i'm it's he's she's that's there's they're "
    "we're you're i've we've they've can can't seems needs wants looks feels works goes comes makes".split()
)
_NO_SENTENCE_END = r"\.\.|\b(?:\w|mr|mrs|ms|dr|st|no|vs|etc|inc|ft|in|oz|lbs?) ?\.|[:;]|\d ?\.|\""
_COMPARATIVES = (
    "better worse larger smaller bigger faster slower cheaper stronger easier harder heavier lighter brighter louder "
    "nicer older newer longer shorter softer thicker thinner sharper sturdier higher lower quieter"
).split()
_COMPARISON_DOUBTS = set(
    "than compare compared comparable comparison similar similarly like unlike same different differently versus vs "
    "prefer another other others as more less most least best worst equal equivalent beats".split()
)
_FRIENDS = ("friend", "boyfriend", "girlfriend", "baby", "boss")
_BOUGHT = r"\b(?:bought|purchased|ordered|got|gift|present)\b(?: (?:this|these|it|them|one|two|a|as|gift|present)){0,4}"
_BETWEEN = r"(?:(?!and\b)[\w-]+ ){0,3}?"
_NOT = r"(?:not|n't|never|cannot)"
_AGAINST = (
    rf"\b(?:\w*{_NOT})(?: \w+)? recommend\b|\b(?:do not|don't|never) (?:buy|waste|bother|purchase|order)\b"
    r"|\bstay away\b|\bsave your money\b|\bavoid (?:this|these) \w+"
)
_IN_FAVOUR = (
    r"\b(?:highly|definitely|strongly|would|totally|i|absolutely|do) recommend\b|\brecommend (?:this|it|these|them)\b"
)
_FAULTS = {
    "it stopped working": r"\b(?:stopped|quit) working\b|\bno longer works\b",
    "it does not work": r"\b(?:does not|doesn't|did not|didn't) work(?! (?:with|for|as|well|great|out))\b",
    "it broke": r"\bbroke (?:after|within|off|apart|the first|right away|immediately|in half)\b",
    "it leaks": r"\b(?:leaks|leaked|leaking)\b",
    "it arrived damaged": r"\b(?:arrived|came) (?:damaged|broken|cracked|defective|scratched|bent)\b",
    "it is too small": r"\btoo (?:small|tight)\b",
    "it is too big": r"\btoo (?:big|large|loose)\b",
    "it does not fit": r"\b(?:does not|doesn't|did not|didn't|don't) fit\b",
    "a part is missing": r"\bmissing (?:a |the |some |one |two )?(?:parts?|pieces?|screws?|bolts?|cables?|buttons?)\b",
}
_REQUEST = (
    r"(?:^|[.!?,] )(?:can|could) (?:you|someone|somebody|anyone) (?:please )?"
    r"(?!believe|imagine|guess|even|really)[a-z]+"
    r"|\bplease (?:help|tell|send|cancel|let|give|explain|advise|check|fix|make|stop|contact|add|show|return|refund)\b"
    r"|\b(?:help me|i need help|i need you to)\b"
)
