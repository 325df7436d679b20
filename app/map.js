// The map of the page of clusters: it shows what is chosen, and tells the app what is chosen on it. Until the app has answered
// to the last of these turns, it is the map that knows.
const PATIENCE = 5000; // milliseconds
const LIT = 0.8, DIM = 0.12, UNIT = 10_000; // opacity of what is chosen and of the rest; the map's half width in an area
const maps = new WeakMap();

const build = (box) => {
  let points, passing, clusters, send, chosen, turn = null, asked = 0;

  const corners = () => chosen.area.flatMap((x, at, all) => (at % 2 ? [] : [[x / UNIT, all[at + 1] / UNIT]]));
  const inside = (x, y, lasso) => {
    let odd = false;
    lasso.forEach(([right, high], at) => {
      const [left, low] = lasso.at(at - 1);
      if (high > y !== low > y && x < ((left - right) * (y - high)) / (low - high) + right) odd = !odd;
    });
    return odd;
  };
  const draw = () => {
    const { x, y, cluster } = points, lasso = chosen.area.length ? corners() : null;
    const lit = Uint8Array.from(x, (_, row) =>
      passing[row] && (!chosen.clusters.length || chosen.clusters.includes(cluster[row])) && (!lasso || inside(x[row], y[row], lasso)));
    map.draw({
      x, y, parts: clusters, part: (row) => clusters[cluster[row]], alpha: (row) => (lit[row] ? LIT : DIM),
      ringed: null, lasso,
    });
  };
  const choose = (wanted) => {
    chosen = { clusters: [], area: [], ...wanted };
    [turn, asked] = [Math.random(), performance.now()];
    draw();
    send("chosen", { ...chosen, turn });
  };

  const map = scatter(box, {
    label: "Map of the reviews: those that answer alike lie together. The clusters are listed below it.",
    scrolls: true,
    text: (row) => `${clusters[points.cluster[row]].label}\n${points.review.get(row)}`,
    pick: (row, more) => {
      const picked = points.cluster[row], known = chosen.clusters, others = known.filter((one) => one !== picked);
      const alone = known.length === 1 && !others.length ? [] : [picked]; // a second click lets go
      choose({ clusters: !more ? alone : others.length < known.length ? others : [...known, picked].sort((a, b) => a - b) });
    },
    enclose: (way) => choose({ area: way.flat().map((one) => Math.round(one * UNIT)) }),
    release: () => { if (chosen.clusters.length || chosen.area.length) choose({}); },
  });

  return (data, setTriggerValue) => {
    const column = (name) => data.points.getChild(name);
    points = { review: column("review") };
    for (const name of ["x", "y", "cluster"]) points[name] = column(name).toArray();
    passing = data.passing.getChild("passing").toArray();
    clusters = data.clusters.map((one) => ({ ...one, seen: true }));
    const answered = turn === null || data.turn === turn || performance.now() - asked > PATIENCE;
    if (answered) [chosen, turn] = [data.chosen, null];
    send = setTriggerValue;
    draw();
  };
};

export default ({ data, parentElement, setTriggerValue }) => {
  const box = parentElement.querySelector(".map");
  if (!maps.has(box)) maps.set(box, build(box));
  maps.get(box)(data, setTriggerValue);
};
