"""Arguments that several tools take, with what agents are told of them."""

from typing import Annotated

from pydantic import Field

from retriever.api.mcp.desk import MOST_HITS

IndexName = Annotated[
    str, Field(description="Name of the index, as list_indexes gives it; may be left out where there is one alone.")
]
Instruction = Annotated[
    str,
    Field(
        description="What to look at in every text, in plain words: 'What kind of product is it?', 'What broke?'. "
        "Left out, texts are taken as they are."
    ),
]
Where = Annotated[
    str,
    Field(description="Filter over metadata: \"stars <= 2 and category = 'toy'\"; =, !=, <, <=, in, has, contains."),
]
Hits = Annotated[int, Field(ge=1, le=MOST_HITS, description="How many documents.")]
