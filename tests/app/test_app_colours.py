import itertools

import numpy as np
import pytest

from retriever_app.view_models.colours import DARK, LIGHT, SHAPES
from retriever_app.view_models.grouping import MOST_GROUPS

# How colours look with no cones of one kind (Machado, Oliveira and Fernandes 2009), in linear RGB.
EYES = {
    "all": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted((TO_XYZ @ linear(colour))[1] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(colour, eye):
    xyz = TO_XYZ @ np.clip(np.array(EYES[eye]) @ linear(colour), 0, None) / (0.95047, 1, 1.08883)
    x, y, z = np.cbrt(xyz)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_stand_out_from_the_ground(theme):
    assert min(contrast(colour, theme.ground) for colour in (*theme.clusters, theme.up, theme.down, theme.quiet)) >= 3
    assert contrast(theme.text, theme.ground) >= 7


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_every_eye_tells_colours_apart(theme, eye):
    for palette in (theme.clusters, (theme.up, theme.down, theme.quiet)):
        nearest = min(np.linalg.norm(lab(a, eye) - lab(b, eye)) for a, b in itertools.combinations(palette, 2))
        assert nearest >= 12


def test_no_two_clusters_share_colour_and_shape():
    looks = {(LIGHT.of(one), LIGHT.shape(one)) for one in range(MOST_GROUPS)}
    assert len(looks) == MOST_GROUPS <= len(SHAPES) * len(LIGHT.clusters)
