(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const search = find("search");
  const { points, clusters } = data; // a point: x, y, cluster, id, text, words, fields, left_out
  // What a level names and colours: label, size, colour, x, y, clusters. The first level is the clusters themselves.
  const levels = [clusters.map((cluster, number) => ({ ...cluster, clusters: [number] })), ...data.levels];
  const [x, y] = [points.map((point) => point.x), points.map((point) => point.y)];
  const on = clusters.map(() => true), partOf = []; // the part of the level shown that holds a cluster
  let shown = points.map(() => true), chosen = null, parts = [];

  const element = (name, text, parent) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };

  const seen = (part) => part.clusters.some((number) => on[number]);

  const map = scatter(find("map"), {
    label: "Map of the documents; the list of clusters names its parts",
    text: (row) => {
      const { text } = points[row];
      return text.length > 200 ? `${text.slice(0, 200)}...` : text;
    },
    pick: (row) => show(row),
  });

  const draw = () => {
    for (const part of parts) part.seen = seen(part);
    map.draw({
      x, y, parts, part: (row) => partOf[points[row].cluster], alpha: (row) => (shown[row] ? 0.75 : 0),
      ringed: chosen, lasso: null,
    });
  };

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = points.map((point) => {
      const text = point.text.toLowerCase();
      return on[point.cluster] && words.every((word) => text.includes(word));
    });
    const count = shown.filter(Boolean).length;
    find("count").textContent = `${count} of ${points.length} documents`;
    draw();
  };

  const show = (row) => {
    chosen = row;
    const point = points[row], box = find("document");
    box.replaceChildren();
    element("strong", point.id, box);
    element("p", point.text, box);
    const list = element("dl", undefined, box);
    const groups = data.levels.map((level) => level.find((part) => part.clusters.includes(point.cluster)));
    const facts = [["cluster", clusters[point.cluster].label], ...groups.map((part) => ["group", part.label])];
    if (point.words.length) facts.push(["model's words", point.words.join(", ")]);
    facts.push(...Object.entries(point.fields));
    if (point.left_out) facts.push(["left out", `${point.left_out} more fields`]);
    for (const [name, value] of facts) {
      element("dt", name, list);
      element("dd", value, list);
    }
    draw();
  };

  const explain = (part) => {
    const button = element("button", undefined, element("li", undefined, find("legend")));
    button.type = "button";
    button.setAttribute("aria-pressed", String(seen(part)));
    const swatch = element("span", undefined, button);
    swatch.className = "swatch";
    swatch.style.backgroundColor = part.colour;
    element("span", part.label, button).className = "name";
    element("span", String(part.size), button).className = "size";
    button.addEventListener("click", () => {
      const shows = !seen(part);
      for (const number of part.clusters) on[number] = shows;
      button.setAttribute("aria-pressed", String(shows));
      filter();
    });
  };

  const choose = (level) => {
    parts = levels[level];
    for (const part of parts) for (const number of part.clusters) partOf[number] = part;
    find("legend").replaceChildren();
    parts.forEach(explain);
    filter();
  };

  search.addEventListener("input", filter);
  const levelBox = find("level");
  levels.forEach((level, number) => element("option", `${level.length} ${number ? "groups" : "clusters"}`, levelBox));
  levelBox.hidden = levels.length === 1;
  levelBox.addEventListener("change", () => choose(levelBox.selectedIndex));
  find("title").textContent = data.title;
  find("caution").textContent = data.caution;
  find("caution").hidden = !data.caution;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  choose(0);
})();
