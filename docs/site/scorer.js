// How the search sorts what it finds: Sphinx's own numbers, but decisions come after the pages that
// tell a user what to do.
var Scorer = {
  score: ([page, , , , score]) => (page.startsWith("decisions/") ? score - 20 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
