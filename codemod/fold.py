"""Folds modules: `fold.py PACKAGE [--check]`, run at the top of a clean checkout.

Reads mapping.py beside it:
  PACKAGES  {package: {new dotted module: [old dotted modules, in the order of reading]}}
  RENAMES   {old dotted module: {name: new name}}
  SENTENCES {new dotted module: first line of its docstring}
  KEEP_PACKAGES  new modules that are an `__init__` of a package
Ends with a list of what a hand has to mend.
"""

import ast
import builtins
import re
import subprocess
import sys
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, ScopeProvider, GlobalScope

sys.path.insert(0, str(Path(__file__).parent))
import mapping

ROOT = Path.cwd()
TEXTS = {".md", ".toml", ".yaml", ".yml", ".html", ".json", ".txt", ".sh", ".cfg", ".service", ""}
by_hand: list[str] = []


def path_of(module: str) -> Path:
    base = ROOT / module.replace(".", "/")
    return base / "__init__.py" if (base / "__init__.py").exists() else base.with_suffix(".py")


def new_path(module: str) -> Path:
    base = ROOT / module.replace(".", "/")
    return base / "__init__.py" if module in mapping.KEEP_PACKAGES else base.with_suffix(".py")


def module_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


class Plan:
    def __init__(self, package: str) -> None:
        self.groups = {
            new: olds
            for new, olds in mapping.PACKAGES[package].items()
            if olds != [new] or any(old in mapping.RENAMES for old in olds)
        }
        self.new_of = {old: new for new, olds in self.groups.items() for old in olds}
        moved = {old: new for old, new in self.new_of.items() if old != new}
        self.moved = moved
        dotted = sorted(moved, key=len, reverse=True)
        self.dotted = re.compile(
            r"(?<![\w.])(" + "|".join(map(re.escape, dotted)) + r")(?!\w)(?!\.py\b)"
        ) if dotted else None
        self.paths: dict[str, str] = {}
        for old, new in moved.items():
            was = path_of(old).relative_to(ROOT / "retrier").as_posix()
            now = new_path(new).relative_to(ROOT / "retrier").as_posix()
            if was.endswith("__init__.py"):
                continue
            self.paths[was] = now
        self.path = re.compile(
            r"(?<![\w-])(retrier/)?(" + "|".join(re.escape(p) for p in sorted(self.paths, key=len, reverse=True)) + r")(?!\w)"
        ) if self.paths else None

    def renamed(self, old: str, name: str) -> str:
        return mapping.RENAMES.get(old, {}).get(name, name)

    def text(self, text: str) -> str:
        if self.dotted:
            text = self.dotted.sub(lambda found: self.moved[found[1]], text)

        def put(found: re.Match[str]) -> str:
            if not found[1] and "/" not in found[2]:
                return found[0]
            return (found[1] or "") + self.paths[found[2]]

        return self.path.sub(put, text) if self.path else text


class Change(cst.CSTTransformer):
    def __init__(self, names, attributes, lines, attrs) -> None:
        self.names, self.attributes, self.lines, self.attrs = names, attributes, lines, attrs

    def leave_Name(self, original_node, updated_node):
        if original_node in self.names:
            return updated_node.with_changes(value=self.names[original_node])
        return updated_node

    def leave_Attribute(self, original_node, updated_node):
        if original_node in self.attributes:
            return cst.Name(
                self.attributes[original_node], lpar=updated_node.lpar, rpar=updated_node.rpar
            )
        if original_node in self.attrs:
            return updated_node.with_changes(attr=cst.Name(self.attrs[original_node]))
        return updated_node

    def leave_SimpleStatementLine(self, original_node, updated_node):
        if original_node not in self.lines:
            return updated_node
        made = self.lines[original_node]
        if not made:
            return cst.RemoveFromParent()
        leading = updated_node.leading_lines
        out = []
        for index, each in enumerate(made):
            out.append(
                updated_node.with_changes(body=[each], leading_lines=leading if index == 0 else [])
            )
        return cst.FlattenSentinel(out)


def dotted_name(node) -> str:
    return cst.Module([]).code_for_node(node) if node is not None else ""


def make_from(module: str, pairs: list[tuple[str, str | None]]) -> cst.ImportFrom:
    text = ", ".join(f"{name} as {alias}" if alias else name for name, alias in pairs)
    return cst.parse_statement(f"from {module} import {text}\n").body[0]


def rewrite(code: str, plan: Plan, me: str, home: str | None) -> str:
    """Rewrite the imports of one file; `home` is the new module that it will be part of."""
    wrapper = MetadataWrapper(cst.parse_module(code), unsafe_skip_copy=True)
    scopes = wrapper.resolve(ScopeProvider)
    parents = wrapper.resolve(ParentNodeProvider)
    module = wrapper.module
    all_scopes = {scope for scope in scopes.values() if scope is not None}
    names, attributes, lines, attrs = {}, {}, {}, {}
    bound = {a.name for scope in all_scopes for a in scope.assignments if not a.name.startswith("builtins")}
    bound_inside = {
        a.name for s in all_scopes if not isinstance(s, GlobalScope) for a in s.assignments
    }

    def references(node, local):
        return [
            access.node
            for scope in all_scopes
            for assignment in scope.assignments
            if assignment.name == local and getattr(assignment, "node", None) is node
            for access in assignment.references
        ]

    def rename_uses(node, local, now):
        if now in bound_inside:
            by_hand.append(f"{me}: {local} becomes {now}, which is also a local name")
        for use in references(node, local):
            if isinstance(use, cst.Name):
                names[use] = now
            else:
                by_hand.append(f"{me}: a use of {local} that is no plain name")

    class Find(cst.CSTVisitor):
        def visit_SimpleStatementLine(self, line) -> None:
            if len(line.body) != 1 or not isinstance(line.body[0], cst.ImportFrom):
                return
            statement = line.body[0]
            if isinstance(statement.names, cst.ImportStar) or statement.module is None:
                return
            source = dotted_name(statement.module)
            kept: list[tuple[str, str | None]] = []
            added: dict[str, list[tuple[str, str | None]]] = {}
            changed = False
            for alias in statement.names:
                name = alias.name.value
                asname = alias.asname.name.value if alias.asname else None
                local = asname or name
                full = f"{source}.{name}"
                if source in plan.new_of and full not in plan.new_of:
                    now = plan.renamed(source, name)
                    if home is not None and plan.new_of[source] == home and source != me:
                        changed = True
                        if local != now:
                            rename_uses(statement, local, now)
                        continue
                    if now != name:
                        changed = True
                        if asname is None:
                            rename_uses(statement, local, now)
                    kept.append((now, asname))
                elif full in plan.new_of:
                    target = plan.new_of[full]
                    if target == home:
                        changed = True
                        for use in references(statement, local):
                            parent = parents.get(use)
                            if isinstance(parent, cst.Attribute) and parent.value is use:
                                now = plan.renamed(full, parent.attr.value)
                                if now in bound_inside:
                                    by_hand.append(f"{me}: {local}.{now} becomes {now}, also a local name")
                                attributes[parent] = now
                            else:
                                by_hand.append(f"{me}: {local} is used as a value")
                        continue
                    for use in references(statement, local):
                        parent = parents.get(use)
                        if isinstance(parent, cst.Attribute) and parent.value is use:
                            now = plan.renamed(full, parent.attr.value)
                            if now != parent.attr.value:
                                attrs[parent] = now
                    if target == full:
                        kept.append((name, asname))
                        continue
                    changed = True
                    package, _, base = target.rpartition(".")
                    if asname is None and base != name:
                        others = {a for s in all_scopes for a in s.assignments if a.name == base}
                        others = {
                            a for a in others
                            if not (isinstance(getattr(a, "node", None), cst.ImportFrom)
                                    and plan.new_of.get(f"{dotted_name(a.node.module)}.{base}", f"{dotted_name(a.node.module)}.{base}") == target)
                        }
                        if others:
                            asname = name
                            by_hand.append(f"{me}: {base} is bound already, so it is imported as {name}")
                        else:
                            for use in references(statement, local):
                                if isinstance(use, cst.Name):
                                    names[use] = base
                    added.setdefault(package, []).append((base, asname))
                else:
                    kept.append((name, asname))
            if not changed:
                return
            made = [make_from(source, kept)] if kept else []
            made += [make_from(package, pairs) for package, pairs in added.items()]
            lines[line] = made

    module.visit(Find())
    for name, now in mapping.RENAMES.get(me, {}).items():
        if me not in plan.new_of:
            continue
        found = False
        if now in bound:
            by_hand.append(f"{me}: {now}, the new name of {name}, is bound already")
        for scope in all_scopes:
            if not isinstance(scope, GlobalScope):
                continue
            for assignment in scope.assignments:
                if assignment.name != name or not hasattr(assignment, "node"):
                    continue
                node = assignment.node
                found = True
                if isinstance(node, cst.Name):
                    names[node] = now
                elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                    names[node.name] = now
                else:
                    by_hand.append(f"{me}: {name} is defined by a {type(node).__name__}")
                for access in assignment.references:
                    if isinstance(access.node, cst.Name):
                        names[access.node] = now
        if not found:
            by_hand.append(f"{me}: no {name} to be renamed")
    if names or attributes or lines or attrs:
        module = module.visit(Change(names, attributes, lines, attrs))
    return module.code


def needs_reading(code: str, plan: Plan) -> bool:
    """Whether names must be followed: what only names a path is rewritten as text."""
    packages = {old.rpartition(".")[0] for old in plan.new_of} | set(plan.new_of)
    if not any(f"from {package} import" in code for package in packages):
        return False
    return any(
        (f"{node.module}.{each.name}" in plan.new_of)
        or plan.renamed(node.module or "", each.name) != each.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    )


def top_names(body: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.parse(body).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = "defined"
            case ast.Assign(targets=targets):
                found |= {t.id: "assigned" for x in targets for t in ast.walk(x) if isinstance(t, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = "assigned"
            case ast.Import(names=names):
                found |= {(a.asname or a.name.split(".")[0]): f"import {a.name}" for a in names}
            case ast.ImportFrom(module=module, names=names):
                found |= {(a.asname or a.name): f"from {module} import {a.name}" for a in names}
    return found


def merge(plan: Plan, new: str, codes: dict[str, str]) -> str:
    docs, imports, bodies, exported = [], [], [], []
    bound: dict[str, dict[str, str]] = {}
    olds = plan.groups[new]
    for position, old in enumerate(olds):
        source = path_of(old).read_text()
        for later in olds[position + 1 :]:
            if re.search(rf"^from {re.escape(later)} import", source, re.MULTILINE):
                by_hand.append(f"{new}: {old} imports {later}, which comes after it")
    for old in olds:
        code = codes[old]
        module = cst.parse_module(code)
        parts = []
        for name, kind in top_names(code).items():
            what = kind if kind.startswith(("import", "from")) else f"{kind} in {old}"
            bound.setdefault(name, {})[what] = old
            if name in vars(builtins) and not name.startswith("__"):
                by_hand.append(f"{new}: {name} of {old} is a builtin's name")
        if re.search(r"\b__name__\b(?<!\)\.__name__)|__file__", code):
            by_hand.append(f"{new}: {old} uses __name__ or __file__")
        header = "".join(line.comment.value + "\n" for line in module.header if line.comment)
        for index, statement in enumerate(module.body):
            text = module.code_for_node(statement)
            simple = isinstance(statement, cst.SimpleStatementLine)
            first = statement.body[0] if simple else None
            if index == 0 and isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString):
                docs.append(ast.literal_eval(first.value.value))
            elif isinstance(first, (cst.Import, cst.ImportFrom)):
                imports.append(text.strip() + "\n")
            elif isinstance(first, cst.Assign) and text.strip().startswith("__all__"):
                exported.append(ast.literal_eval(first.value.evaluated_value if False else ast.parse(text.strip()).body[0].value))
            else:
                parts.append(text)
        if header:
            by_hand.append(f"{new}: {old} begins with a comment: {header!r}")
        footer = module.code_for_node(cst.Module(body=[], header=module.footer)) if module.footer else ""
        body = "".join(parts).strip("\n")
        if footer.strip():
            body += "\n" + footer.rstrip()
        if body.strip():
            bodies.append(body + "\n")
    for name, kinds in bound.items():
        if len(kinds) > 1:
            by_hand.append(f"CLASH {new}: {name}: " + "; ".join(kinds))
    rest = [doc.partition("\n")[2].strip() for doc in docs]
    sentence = mapping.SENTENCES.get(new)
    if sentence is None:
        sentence = docs[0].partition("\n")[0].strip()
        if len(docs) > 1:
            by_hand.append(f"{new}: no sentence for its docstring")
    paragraphs = [each for each in rest if each]
    raw = "\\" in sentence + "".join(paragraphs)
    if paragraphs:
        doc = '"""' + sentence + "\n\n" + "\n\n".join(paragraphs) + '\n"""\n'
        if len(olds) > 1:
            by_hand.append(f"{new}: its docstring has {len(paragraphs)} parts of {[len(p) for p in paragraphs]} characters: read it")
    else:
        doc = f'"""{sentence}"""\n'
    if raw:
        doc = "r" + doc
    unique = list(dict.fromkeys(imports))
    out = doc + "\n" + "".join(unique) + "\n\n" + "\n\n".join(bodies)
    if exported:
        out += "\n\n__all__ = " + repr(sorted({n for each in exported for n in each})) + "\n"
    return out


def main() -> None:
    package = sys.argv[1]
    check = "--check" in sys.argv
    plan = Plan(package)
    for new, olds in plan.groups.items():
        for old in olds:
            if not path_of(old).exists():
                raise SystemExit(f"{old} is not there")
    tracked = [ROOT / name for name in git("ls-files").splitlines()]
    changed: dict[Path, str] = {}
    codes: dict[str, str] = {}
    home_of = {path_of(old): (old, new) for old, new in plan.new_of.items()}
    for path in tracked:
        if not path.exists() or path.is_symlink():
            continue
        if path.suffix == ".py":
            code = path.read_text()
            me, home = home_of.get(path, (module_of(path), None))
            out = code
            if home is not None or needs_reading(code, plan):
                out = rewrite(code, plan, me, home)
            out = plan.text(out)
            if home is not None:
                codes[me] = out
            elif out != code:
                changed[path] = out
        elif path.suffix in TEXTS:
            try:
                code = path.read_text()
            except UnicodeDecodeError:
                continue
            out = plan.text(code)
            if out != code:
                changed[path] = out
    merged = {new: merge(plan, new, codes) for new in plan.groups}
    if not check:
        for path, out in changed.items():
            path.write_text(out)
        written = list(changed)
        for new, olds in plan.groups.items():
            there = [path_of(old) for old in olds]
            target = new_path(new)
            if target not in there:
                target.parent.mkdir(parents=True, exist_ok=True)
                biggest = max(there, key=lambda p: p.stat().st_size)
                git("mv", str(biggest), str(target))
                there.remove(biggest)
            for path in there:
                if path != target:
                    git("rm", "-q", "-f", str(path))
            target.write_text(merged[new])
            written.append(target)
        for folder in sorted({path_of(old).parent for old in plan.new_of} | {(ROOT / old.replace(".", "/")).parent for old in plan.new_of}, key=lambda p: -len(p.parts)):
            left = [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"] if folder.exists() else []
            if left == [folder / "__init__.py"] and folder / "__init__.py" not in written:
                git("rm", "-q", "-f", str(left[0]))
                print(f"removed the empty package {folder.relative_to(ROOT)}")
        python = [str(p) for p in written if p.suffix == ".py" and p.exists()]
        ruff = str(ROOT / ".venv/bin/ruff")
        for command in (
            [ruff, "check", "-q", "--select", "I", "--fix", *python],
            [ruff, "format", "-q", *python],
            [ruff, "check", "-q", "--select", "I", "--fix", *python],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(done.stdout, done.stderr)
        git("add", "-A")
    print(f"{package}: {len(plan.new_of)} modules become {len(plan.groups)}; {len(changed)} other files change")
    words = {old.rpartition(".")[2] for old in plan.moved}
    bases = {new.rpartition(".")[2] for new in plan.groups}
    mention = re.compile(r"`(" + "|".join(sorted(words - bases)) + r")(\.py|\.\w+)?`") if words - bases else None
    for path in tracked:
        if mention and path.exists() and path.suffix == ".py":
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if mention.search(line):
                    by_hand.append(f"mention {path.relative_to(ROOT)}:{number}: {line.strip()[:150]}")
    if not check:
        for new in plan.groups:
            count = len(new_path(new).read_text().splitlines())
            if count > 700:
                by_hand.append(f"{new} has {count} lines")
    print("By hand:", *by_hand, sep="\n  ")


main()
