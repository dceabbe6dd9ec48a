// The page of a pool: follows the stream of states, and draws what it says. Nothing comes from anywhere else.

const find = (id) => document.getElementById(id);
const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4]];
const strokes = ["solid", "dashed", "dotted", "dash-dotted", "short dashes"]; // not by colour alone
const longest = 1200; // samples of a chart
let state = null; // the last one that was told
let history = null; // jobs and cores by class over time
let estimates = null;
let policy = null;
const charts = new Map();

// --- words ---------------------------------------------------------------------------------------

const number = (value, digits = 3) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(digits))));
const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1).replace(/^-0\.0$/, "0.0").replace("-", "−")} %`);
const clock = (seconds, options) => new Date(1000 * seconds).toLocaleTimeString([], options);
const many = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function row(cells) {
  const made = element("tr");
  cells.forEach(([text, kind], i) => made.append(element(i ? "td" : "th", text, i ? (kind ? { class: kind } : {}) : { scope: "row" })));
  return made;
}

// --- asking --------------------------------------------------------------------------------------

const token = () => find("token").value || sessionStorage.getItem("token") || "";
const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

async function ask(path) {
  const answer = await fetch(path, { headers: headers() });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

function link(kind, text) {
  find("link").dataset.state = kind;
  find("link").textContent = text;
}

// EventSource cannot show a token, so the stream is read by hand.
async function follow() {
  for (;;) {
    try {
      const answer = await fetch("v1/stream", { headers: { ...headers(), Accept: "text/event-stream" } });
      if (answer.status === 401) {
        link("gone", "reading needs the token");
        await waitForToken();
        continue;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      [history, estimates, policy] = await Promise.all([ask("v1/history"), ask("v1/estimates"), ask("v1/policy")]);
      await read(answer.body.getReader());
    } catch (error) {
      console.info(`stream: ${error.message}`);
    }
    link("gone", "connection lost, trying again …");
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

function waitForToken() {
  return new Promise((resolve) => find("control").addEventListener("submit", resolve, { once: true }));
}

async function read(reader) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("");
      if (data) take(JSON.parse(data));
    }
  }
}

function take(told) {
  const before = state;
  state = told;
  link("live", `live, ${clock(told.report.time)}`);
  remember(told);
  if (!before || before.report.windows !== told.report.windows) refresh("v1/estimates", (found) => { estimates = found; drawLearned(); });
  if (!before || before.report.policy !== told.report.policy || before.report.pool !== told.report.pool) refresh("v1/policy", (found) => { policy = found; drawPolicy(); });
  draw();
}

function refresh(path, then) {
  ask(path).then(then).catch((error) => console.info(error.message));
}

function remember(told) {
  if (!history) return;
  const last = history.time.at(-1) ?? -Infinity;
  if (told.report.time <= last) return;
  history.time.push(told.report.time);
  history.classes.forEach((kept, i) => {
    kept.jobs.push(told.report.classes[i].jobs);
    kept.held.push(told.report.classes[i].held);
  });
  if (history.time.length > longest) {
    history.time.shift();
    history.classes.forEach((kept) => { kept.jobs.shift(); kept.held.shift(); });
  }
}

// --- drawing -------------------------------------------------------------------------------------

function draw() {
  if (!state) return;
  drawFacts();
  drawAlarms();
  drawJobs();
  drawGain();
  drawCharts();
  drawPolicy();
}

function drawFacts() {
  const report = state.report;
  if (document.activeElement !== find("mode") && find("mode").dataset.mode !== report.mode) find("mode").value = report.mode;
  find("mode").dataset.mode = report.mode;
  const waiting = report.classes.reduce((sum, row) => sum + row.waiting, 0);
  const facts = [
    ["mode", report.mode],
    ["cores", `${report.held} of ${report.pool} held`],
    ["jobs", report.jobs ? `${report.jobs}, ${waiting ? `${waiting} of them waiting` : "none waiting"}` : "none"],
    ["policy", `${report.policy}, since ${clock(report.since)}`],
    ["learned from", `${many(report.windows, "window")}, ${many(report.classes.reduce((sum, row) => sum + row.finished, 0), "departure")}`],
  ];
  if (report.mode === "watch") facts.push(["would have been", many(report.would_have_moved, "move")]);
  find("facts").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
}

function drawAlarms() {
  const { alerts, alarms } = state.report;
  const rows = [
    ...alerts.map((one) => element("li", `${one.about}: ${one.text}`, { class: "alert" })),
    ...alarms.map((one) => element("li", one.text, { class: "change" })),
  ].slice(-50).reverse();
  const text = rows.map((made) => made.textContent).join("\n");
  if (find("alarms").dataset.text === text && rows.length) return;
  find("alarms").dataset.text = text;
  find("alarms").replaceChildren(...(rows.length ? rows : [element("li", "none", { class: "none" })]));
}

function drawJobs() {
  const jobs = state.allocation.jobs;
  const shown = jobs.slice(0, 200);
  const rows = shown.map((job) => {
    const made = element("tr");
    const moving = job.held === job.told ? "number" : "number moving";
    made.append(element("td", job.job), element("td", job.job_class), element("td", String(job.held), { class: "number" }),
      element("td", String(job.told), { class: moving }), element("td", job.why ?? ""));
    return made;
  });
  if (!rows.length) rows.push(element("tr"));
  if (!shown.length) rows[0].append(element("td", "no jobs", { colspan: "5", class: "none" }));
  find("jobs").tBodies[0].replaceChildren(...rows);
  find("more").textContent = jobs.length > shown.length ? `and ${jobs.length - shown.length} more` : "";
}

function drawGain() {
  const { gain, in_force: inForce, reason, classes } = state.report;
  find("gain").textContent = gain
    ? `${percent(gain.expected)} less cost than EQUI, between ${percent(gain.least)} and ${percent(gain.most)} where the parameters may lie; the policy is ${inForce ? "in force" : "not adopted"}`
    : "not known yet";
  find("reason").textContent = reason;
  find("gains").tBodies[0].replaceChildren(...classes.map((one) => row([
    [one.name],
    [one.responses.count ? `${number(one.responses.mean)} ± ${number(one.responses.stderr, 2)}` : "–", "number"],
    [one.expected ? number(one.expected.equi) : "–", "number"],
    [one.expected ? number(one.expected.policy) : "–", "number"],
    [one.expected ? percent(one.expected.gain) : "–", "number"],
  ])));
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axes(whole) {
  const common = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const ticks = whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] } : {};
  return [{ ...common, space: 80, values: (_, times) => times.map((time) => moment(time, times)) }, { ...common, ...ticks, size: 44 }];
}

function moment(time, times) {
  const span = times.at(-1) - times[0];
  const day = span > 86400 ? `${new Date(1000 * time).toLocaleDateString([], { month: "short", day: "numeric" })} ` : "";
  const upTo = span > 600 ? {} : { second: "2-digit" };
  return day + clock(time, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...upTo });
}

function chart(place, series, data, bands) {
  const width = place.clientWidth;
  const known = charts.get(place);
  if (known && known.seriesCount === series.length && known.width === width) {
    known.plot.setData(data);
    return;
  }
  known?.plot.destroy();
  place.querySelector(".none")?.remove();
  const range = (_, low, high) => [0, Math.max(bands ? 1 : 2, 1.05 * high)];
  const plot = new uPlot({ width, height: 180, series: [{}, ...series], scales: { y: { range } }, padding: [null, 24, null, null], axes: axes(!bands), bands, legend: { show: !bands, live: false }, cursor: { show: false } }, data, place);
  charts.set(place, { plot, width, seriesCount: series.length });
}

function line(name, i, extra = {}) {
  return { label: name, stroke: colour(`--class-${i % 5}`), width: 2, dash: dashes[i % 5], points: { show: false }, ...extra };
}

function drawCharts() {
  if (!history || history.time.length < 2) return;
  for (const [id, key] of [["queues", "jobs"], ["cores", "held"]]) {
    const step = uPlot.paths.stepped({ align: 1 });
    chart(find(id), history.classes.map((one, i) => line(`${one.name} (${strokes[i % 5]})`, i, { paths: step })), [history.time, ...history.classes.map((one) => one[key])]);
  }
}

function drawLearned() {
  const place = find("learned");
  const names = estimates ? Object.keys(estimates.classes) : [];
  names.forEach((name, i) => {
    let part = place.querySelector(`[data-class="${i}"]`);
    if (!part) {
      part = element("div", undefined, { "data-class": String(i) });
      part.append(element("h3", name), element("p"), element("div", undefined, { class: "plot", role: "img", "aria-label": `Estimates of ${name} with their intervals over time` }));
      place.append(part);
    }
    part.children[1].textContent = inWords(estimates.classes[name]);
    drawBand(part.children[2], name, i);
  });
}

function inWords(learned) {
  if (!learned) return "nothing yet: the first window of departures is not over";
  const known = Object.entries(learned.parameters).map(([name, value]) => {
    const [low, high] = learned.intervals[name];
    return `${name} = ${number(value)}, in [${number(low)}, ${number(high)}]`;
  });
  const told = learned.informative ? `${learned.family}: ${known.join("; ")}` : `${learned.family}, not known yet`;
  return `${told}; from ${many(learned.departures, "departure")}${learned.note ? `; ${learned.note}` : ""}`;
}

function drawBand(place, name, i) {
  const rows = estimates.history.map((one) => [one.time, one.classes[name]]).filter(([, one]) => one && one.informative);
  if (rows.length < 2) {
    place.hidden = true;
    return;
  }
  place.hidden = false;
  const parameter = Object.keys(rows[0][1].parameters)[0];
  const data = [rows.map(([time]) => time), rows.map(([, one]) => one.intervals[parameter][1]), rows.map(([, one]) => one.parameters[parameter]), rows.map(([, one]) => one.intervals[parameter][0])];
  const end = { width: 1, dash: [2, 3] };
  const fill = `rgb(${colour("--heat")} / 0.15)`;
  chart(place, [line("upper end", i, end), line(parameter, i), line("lower end", i, end)], data, [{ series: [1, 3], fill }]);
}

function drawPolicy() {
  if (!policy || !state) return;
  const [first, second] = policy.classes;
  const table = find("policy");
  if (!policy.cores) {
    find("policy-text").textContent = `${policy.policy}: a table is shown for two classes, and there are ${policy.classes.length}`;
    table.replaceChildren();
    return;
  }
  const counts = state.report.classes.map((one) => one.jobs);
  const key = JSON.stringify([policy.policy, policy.pool, counts]);
  if (table.dataset.key === key) return;
  table.dataset.key = key;
  find("policy-text").textContent = `${policy.policy}: cores of ${first}, of ${policy.pool}, by jobs of ${first} (down) and of ${second} (across); the others are ${second}'s. Framed: now, ${counts.join(" and ")}.`;
  const most = Math.min(policy.cores.length, 17);
  const head = element("tr");
  head.append(element("td"), ...Array.from({ length: most }, (_, j) => element("th", String(j), { scope: "col" })));
  const body = policy.cores.slice(0, most).map((line, i) => {
    const made = element("tr");
    made.append(element("th", String(i), { scope: "row" }));
    line.slice(0, most).forEach((cores, j) => {
      const cell = element("td", String(cores));
      cell.style.background = `rgb(${colour("--heat")} / ${(0.45 * cores) / policy.pool})`;
      if (i === counts[0] && j === counts[1]) cell.className = "here";
      made.append(cell);
    });
    return made;
  });
  table.replaceChildren(head, ...body);
}

function redraw() {
  for (const known of charts.values()) known.plot.destroy();
  charts.clear();
  find("policy").dataset.key = "";
  draw();
  drawLearned();
}

// --- the form ------------------------------------------------------------------------------------

find("control").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (find("token").value) sessionStorage.setItem("token", find("token").value);
  const said = find("said");
  try {
    const answer = await fetch("v1/mode", { method: "PUT", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify({ mode: find("mode").value }) });
    const told = await answer.json();
    said.dataset.state = answer.ok ? "good" : "bad";
    said.textContent = answer.ok ? `mode is ${told.mode}` : told.detail;
    if (!answer.ok && state) find("mode").value = state.report.mode;
  } catch (error) {
    said.dataset.state = "bad";
    said.textContent = `no answer: ${error.message}`;
  }
});

window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let resized = 0;
window.addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(redraw, 150);
});
follow();
