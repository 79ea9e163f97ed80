// How the search sorts what it finds. Sphinx gives a page the same number for a word of its title
// and for a word of any of its headings; so a page whose own title is asked for comes first here.
// Lists that are made of the code, and pages for who changes Retrier, come after those that tell a
// user what to do, and decisions come last.
const ASKED = (new URLSearchParams(window.location.search).get("q") || "").toLowerCase().match(/\w{2,}/g) || [];

const LATER = {
  "changelog": 8,
  "cli-options": 8,
  "code-map": 8,
  "contributing": 8,
  "database": 3,
  "http-routes": 8,
  "index": 8,
  "performance": 8,
  "proofs": 8,
};

// The share of what is asked for that the title of a page has. Endings of words do not matter.
const shareOf = (title) => {
  const words = title.split(" > ")[0].toLowerCase().match(/\w+/g) || [];
  const has = (asked) => words.some((word) => word.slice(0, 6) === asked.slice(0, 6));
  return ASKED.length ? ASKED.filter(has).length / ASKED.length : 0;
};

var Scorer = {
  score: ([page, title, , , score]) =>
    score + 12 * shareOf(title) - (page.startsWith("decisions/") ? 25 : LATER[page] || 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
