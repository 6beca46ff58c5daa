// A figure opens in full size, by mouse or keyboard; a solution is folded.
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll(".cell_output img")) {
    const link = document.createElement("a");
    link.href = image.src;
    link.setAttribute("aria-label", "Figure in full size");
    image.replaceWith(link);
    link.append(image);
  }
  for (const solution of document.querySelectorAll(".solution.dropdown")) {
    const [folded, title] = ["details", "summary"].map((name) => document.createElement(name));
    folded.className = solution.className;
    folded.id = solution.id;
    title.className = "admonition-title";
    title.textContent = solution.querySelector(".admonition-title").textContent;
    solution.querySelector(".admonition-title").replaceWith(title);
    folded.append(title, ...solution.childNodes);
    solution.replaceWith(folded);
  }
});

// The reading mode "predict first", for students: answers are hidden, results behind a prediction are folded.
// An address with ?predict switches it on, one with ?predict=off switches it off.
const MODE = "predict";
const FOR_TEACHERS = ["expected_answers.html", "results.html", "teaching.html"];

function remembered() {
  try {
    return localStorage.getItem(MODE) === "on";
  } catch { // a browser may refuse to store
    return false;
  }
}

function remember(isOn) {
  try {
    localStorage.setItem(MODE, isOn ? "on" : "off");
  } catch { // the links of the page hand the mode on
  }
}

function isPredictFirst() {
  const asked = new URLSearchParams(location.search).get(MODE);
  if (asked !== null) remember(asked !== "off");
  return asked === null ? remembered() : asked !== "off";
}

// Put elements that stand beside each other into a fold.
function fold(elements, title) {
  const [folded, summary] = ["details", "summary"].map((name) => document.createElement(name));
  folded.className = "asked";
  summary.textContent = title;
  elements[0].before(folded);
  folded.append(summary, ...elements);
}

function foldAnswers() {
  for (const card of document.querySelectorAll("article.notebook")) {
    const question = card.querySelector("h3");
    const answer = [...card.querySelectorAll("img, p:not(.extra)")];
    question.after(...answer);
    if (answer.length) fold(answer, "Show the answer");
  }
  for (const answer of document.querySelectorAll("div.cell.tag_answer")) fold([answer], "Show the answer");
  for (const text of document.querySelectorAll("div.result")) fold([text], "Show what came out");
  for (const shown of document.querySelectorAll("div.tag_later > .cell_output")) {
    if (!shown.closest("details")) fold([shown], "Show the result");
  }
}

// Links within the book hand the mode on; a page for teachers is not listed.
function handOn() {
  for (const link of document.querySelectorAll("a[href]")) {
    const address = new URL(link.href);
    const page = address.pathname.split("/").pop();
    const isInBook = address.protocol === location.protocol && address.host === location.host;
    if (!isInBook || !page.endsWith(".html") || address.pathname === location.pathname) continue;
    const listed = link.closest("li.toctree-l1, .prev-next-area a");
    if (listed && FOR_TEACHERS.includes(page)) listed.style.display = "none";
    address.searchParams.set(MODE, "");
    link.href = address.href;
  }
}

function addSwitch(isOn) {
  const link = document.createElement("a");
  const address = new URL(location.href);
  address.search = isOn ? `?${MODE}=off` : `?${MODE}`;
  link.href = address.href;
  link.className = "predict-first";
  link.textContent = isOn ? "Show all results" : "Predict first";
  link.title = isOn ? "Answers and results are shown" : "For students: answers and results are hidden until you ask";
  document.querySelector(".article-header-buttons")?.prepend(link);
}

const predictFirst = isPredictFirst();
if (predictFirst) document.documentElement.classList.add("predicting");
document.addEventListener("DOMContentLoaded", () => {
  if (predictFirst) {
    foldAnswers();
    handOn();
  }
  addSwitch(predictFirst);
  document.documentElement.classList.remove("predicting");
});
