from retriever.core.whole_words import in_whole_words


def test_a_fragment_is_completed_from_the_text_or_left_out():
    words = ["right", "charg", "charging", "disappro"]
    assert in_whole_words(words, "It stopped Charging.") == ["right", "charging"]
    assert in_whole_words(words, "I disapprove!") == ["right", "charging", "disapprove"]  # a whole word stays
    assert in_whole_words([], "It stopped.") == []
