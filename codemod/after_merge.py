"""after_merge.py: after a branch was merged into the folded tree, at the top of the checkout.

Rewrites old dotted paths and file paths, in every tracked text, of the packages that are folded
(old modules that are gone), and tells what a hand has to look at: names that were renamed, old
modules imported as namespaces, and old files that the merge brought back.
"""
import re, subprocess, sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parent)); import mapping
ROOT = Path.cwd()
FOLDED = ("domain", "policy", "events", "settings", "worker", "demo", "integrations", "cli", "api", "web")
moved = {o: n for p in FOLDED for n, olds in mapping.PACKAGES[p].items() for o in olds if o != n}
file = lambda m: ROOT / (m.replace(".", "/") + ".py")
for old in [o for o in moved if file(o).exists()]:
    changed = subprocess.run(["git", "log", "-1", "--format=%h %s", "--", str(file(old))], capture_output=True, text=True).stdout.strip()
    print("there again:", old, "->", moved.pop(old), changed)
dotted = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, sorted(moved, key=len, reverse=True))) + r")(?!\w)")
paths = {o.removeprefix("retrier.").replace(".", "/") + ".py": n.removeprefix("retrier.").replace(".", "/") + ".py" for o, n in moved.items()}
path = re.compile(r"(?<![\w-])(retrier/)?(" + "|".join(map(re.escape, sorted(paths, key=len, reverse=True))) + r")(?!\w)")
python = []
for name in subprocess.run(["git", "ls-files"], capture_output=True, text=True).stdout.splitlines():
    f = ROOT / name
    if f.suffix not in {".py", ".md", ".toml", ".yaml"} or not f.exists() or name.startswith("docs/decisions/0033"):
        continue
    text = f.read_text()
    for old in {m[1] for m in dotted.finditer(text)}:
        for was, now in mapping.RENAMES.get(old, {}).items():
            if re.search(rf"\b{was}\b", text): print(f"{name}: {old}.{was} is called {now} now")
    for old in moved:
        package, _, base = old.rpartition(".")
        if re.search(rf"from {re.escape(package)} import [^\n]*\b{base}\b", text) and not file(old).exists():
            print(f"{name}: imports {old} as a namespace: {moved[old]}")
    new = dotted.sub(lambda m: moved[m[1]], text)
    new = path.sub(lambda m: (m[1] or "") + paths[m[2]], new)
    if new != text:
        f.write_text(new); print("rewritten:", name)
        if f.suffix == ".py": python.append(name)
if python:
    subprocess.run([".venv/bin/ruff", "check", "-q", "--select", "I", "--fix", *python])
    subprocess.run([".venv/bin/ruff", "format", "-q", *python])
