"""The losses written out as the papers print them: loops over lists of Python floats, no tensors, no tricks."""

from itertools import pairwise
from math import exp, log, sqrt


def dot(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True))


def unit(vector):
    length = sqrt(dot(vector, vector))
    return [x / length for x in vector] if length else list(vector)


def cosine(left, right):
    return dot(unit(left), unit(right))


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def distance(left, right):
    return sum((a - b) ** 2 for a, b in zip(left, right, strict=True))


def softmax(logits):
    mass = [exp(x) for x in logits]
    return [x / sum(mass) for x in mass]


def counted(mask):
    return [(i, j) for i, row in enumerate(mask) for j, real in enumerate(row) if real]


def mse(student, teacher, mask):
    return mean(distance(student[i][j], teacher[i][j]) for i, j in counted(mask))


def divergence(first, second):
    return sum(p * log(p / q) for p, q in zip(softmax(first), softmax(second), strict=True))


def kl(student, teacher, mask, direction):
    pairs = [(student[i][j], teacher[i][j]) for i, j in counted(mask)]
    return mean(divergence(s, t) if direction == "student-first" else divergence(t, s) for s, t in pairs)


def cross_entropy(logits, answers, mask):
    return mean(-log(softmax(logits[i][j])[answers[i][j]]) for i, j in counted(mask))


def view_contrast(views, groups, tau, form, left_out=()):
    every = [(vector, groups[i]) for view in views for i, vector in enumerate(view)]
    losses = []
    for z, (anchor, group) in enumerate(every):
        others = [other for a, other in enumerate(every) if a != z and {a, z} not in left_out]
        below = sum(exp(cosine(anchor, vector) / tau) for vector, _ in others)
        above = [exp(cosine(anchor, vector) / tau) for vector, its in others if its == group]
        if above:
            losses.append(-log(sum(above) / below) if form == "inside" else mean(-log(a / below) for a in above))
    return mean(losses)


def infonce(anchor, positive, negatives, tau):
    right = exp(cosine(anchor, positive) / tau)
    return -log(right / (right + sum(exp(cosine(anchor, one) / tau) for one in negatives)))


def real(vectors, mask):
    return [vector for vector, counts in zip(vectors, mask, strict=True) if counts]


def others(rows, i, groups):
    return [row for j, row in enumerate(rows) if j != i and groups[j] != groups[i]]


def stepwise(queries, documents, negatives, mask, groups, tau):
    return [
        mean(infonce(q[i], d[i], others(d, i, groups) + real(n[i], mask[i]), tau) for i in range(len(q)))
        for q, d, n in zip(queries, documents, negatives, strict=True)
    ]


def refinement(steps):
    logs = [log(max(step, 1e-8)) for step in steps]
    return sum(max(after - before, 0) for before, after in pairwise(logs)) / max(len(steps) - 1, 1)


def dicl(query, query_text, query_instruction, positive, negatives, mask, groups, margin, tau):
    rows = range(len(query))
    whole = [cosine(query[i], positive[i]) for i in rows]
    return {
        "improvement": mean(
            max(0, margin - whole[i] + cosine(query_text[i], positive[i]))
            + max(0, margin - whole[i] + cosine(query_instruction[i], positive[i]))
            for i in rows
        ),
        "contrast": mean(
            mean(max(0, margin - whole[i] + cosine(query[i], n)) for n in real(negatives[i], mask[i])) for i in rows
        ),
        "batch": mean(infonce(query[i], positive[i], others(positive, i, groups), tau) for i in rows),
        "symmetric": mean(infonce(positive[i], query[i], others(query, i, groups), tau) for i in rows),
    }


def tiered(target, both, instruction, query, half_wrong, wrong, external, mask, groups, tau):
    terms = {"first": [], "symmetric": [], "instruction": [], "query": [], "first_over_second": []}
    for i in range(len(target)):
        tier2, tier3, tier4, tier5 = [instruction[i], query[i]], half_wrong[i], wrong[i], real(external[i], mask[i])
        targets, firsts = others(target, i, groups), others(both, i, groups)
        low = tier3 + tier4 + tier5 + targets
        terms["first"].append(infonce(target[i], both[i], tier2 + tier3 + tier4 + tier5 + firsts, tau))
        terms["symmetric"].append(infonce(both[i], target[i], tier5 + targets, tau))
        terms["instruction"].append(infonce(instruction[i], target[i], low, tau))
        terms["query"].append(infonce(query[i], target[i], low, tau))
        terms["first_over_second"].append(infonce(target[i], both[i], tier2, tau))
    return {name: mean(values) for name, values in terms.items()}


def fused(new, base, weight):
    return [
        unit([weight * a + (1 - weight) * b for a, b in zip(unit(n), unit(o), strict=True)])
        for n, o in zip(new, base, strict=True)
    ]


def order_error(student, teacher):
    errors = []
    for i in range(len(student)):
        others = [j for j in range(len(student)) if j != i]
        wanted = softmax([cosine(teacher[i], teacher[j]) / 0.05 for j in others])
        given = softmax([cosine(student[i], student[j]) / 0.05 for j in others])
        errors.append(sum(p * log(p / q) for p, q in zip(wanted, given, strict=True)))
    return mean(errors)


def similarity_error(student, teacher):
    rows = range(len(student))
    pairs = [(i, j) for i in rows for j in rows if i != j]
    return mean((cosine(student[i], student[j]) - cosine(teacher[i], teacher[j])) ** 2 for i, j in pairs)
