import pickle

import pytest

from retriever.core.errors import UsageError
from retriever.core.languages import ENGLISH, language, languages


@pytest.mark.parametrize(
    ("code", "forms"),
    [
        ("de", ["Batterie", "Batterien"]),
        ("fr", ["bruyant", "bruyante", "bruyants"]),
        ("es", ["pantalla", "pantallas"]),
        ("pt", ["quebrou", "quebrar"]),
        ("nl", ["werken", "werkt"]),
        ("ru", ["экран", "экраны", "экрана"]),
        ("en", ["works", "working"]),
    ],
)
def test_the_forms_of_a_word_have_one_stem(code, forms):
    assert len({language(code).stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        ("de", "Die Akkus waren nach zwei Tagen leer", ["akkus", "zwei", "tagen", "leer"]),
        ("fr", "Qu'il est bruyant, l'appareil !", ["bruyant", "appareil"]),
        ("it", "Il rumore dell'asciugacapelli", ["rumore", "asciugacapelli"]),
        ("es", "No carga con este cable", ["carga", "cable"]),
        ("pt", "A bateria não dura nada", ["bateria", "dura"]),
        ("ja", "バッテリーが二日で切れた。音が大きい", ["バッテリー", "二日", "音"]),
        ("zh", "电池很好", ["电池"]),
        ("ko", "배터리가 너무 작아요", ["배터리", "작아요"]),
        ("en", "It's the battery", ["battery"]),
    ],
)
def test_words_are_those_that_say_something(code, text, words):
    assert language(code).words(text) == words


@pytest.mark.parametrize(
    ("code", "text", "denies"),
    [
        ("de", "kein netz", True),
        ("de", "keine ahnung, das netz", True),
        ("de", "das netz", False),
        ("fr", "pas de bruit", True),
        ("ja", "音がしない", True),
        ("ja", "音がする", False),
        ("ko", "안녕", False),
        ("en", "doesn't fit", True),
    ],
)
def test_a_denial_is_known_by_its_words(code, text, denies):
    assert language(code).denies(text) is denies


def test_a_code_has_one_spelling_and_an_unknown_one_is_refused():
    assert language("NB") is language("no")
    assert language("en") is ENGLISH
    with pytest.raises(UsageError, match="Unknown language 'xx'"):
        language("xx")


def test_a_copy_of_a_language_does_as_it_does():
    for code, text in (("en", "It's the batteries"), ("de", "Es sind die Batterien")):
        spoken = language(code)
        other = pickle.loads(pickle.dumps(spoken))
        assert other == spoken and other is not spoken
        for ask in ("words", "searched", "query_terms", "stem"):
            assert getattr(other, ask)(text) == getattr(spoken, ask)(text)


def test_every_language_stems_what_it_is_given():
    for spoken in languages().values():
        assert spoken.stem("Motor7")
        assert spoken is ENGLISH or spoken.words(" ".join(sorted(spoken.stop))) == []
