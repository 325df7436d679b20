// The map of the page of clusters: it shows which clusters are chosen, and tells the app which are chosen on it. Until the
// app has answered the last of these turns, the map's own choice holds.
const PATIENCE = 5000; // milliseconds
const LIT = 0.8, DIM = 0.12; // opacity of what is chosen and of the rest
const maps = new WeakMap();

const build = (box) => {
  let points, passing, clusters, send, chosen, turn = null, sent = 0;

  const draw = () => {
    const { x, y, cluster } = points;
    const lit = Uint8Array.from(x, (_, row) => passing[row] && (!chosen.length || chosen.includes(cluster[row])));
    map.draw({
      x, y, parts: clusters, part: (row) => clusters[cluster[row]], alpha: (row) => (lit[row] ? LIT : DIM), ringed: null,
    });
  };
  const choose = (wanted) => {
    [chosen, turn, sent] = [wanted, Math.random(), performance.now()];
    draw();
    send("chosen", { clusters: chosen, turn });
  };

  const map = scatter(box, {
    label: "Map of the reviews: similar answers lie close together. The clusters are listed below it.",
    scrolls: true,
    text: (row) => `${clusters[points.cluster[row]].label}\n${points.review.get(row)}`,
    pick: (row, more) => {
      const picked = points.cluster[row], others = chosen.filter((number) => number !== picked);
      const alone = chosen.length === 1 && !others.length ? [] : [picked]; // a second click clears the choice
      choose(!more ? alone : others.length < chosen.length ? others : [...chosen, picked].sort((a, b) => a - b));
    },
    release: () => { if (chosen.length) choose([]); },
  });

  return (data, setTriggerValue) => {
    const column = (name) => data.points.getChild(name);
    points = { review: column("review") };
    for (const name of ["x", "y", "cluster"]) points[name] = column(name).toArray();
    passing = data.passing.getChild("passing").toArray();
    clusters = data.clusters.map((cluster) => ({ ...cluster, seen: true }));
    const answered = turn === null || data.turn === turn || performance.now() - sent > PATIENCE;
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
