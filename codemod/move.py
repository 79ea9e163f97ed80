"""move.py FROM TO NAME...: moves definitions between modules, at the top of a checkout."""
import ast, subprocess, sys
from pathlib import Path
R=Path.cwd()
a,b,*names=sys.argv[1:]
def path(m):
    p=R/m.replace('.','/'); return p/'__init__.py' if (p/'__init__.py').exists() else p.with_suffix('.py')
pa,pb=path(a),path(b)
src=pa.read_text(); lines=src.splitlines(keepends=True); tree=ast.parse(src)
def bound(n):
    if isinstance(n,(ast.FunctionDef,ast.ClassDef)): return {n.name}
    if isinstance(n,ast.Assign): return {t.id for t in n.targets if isinstance(t,ast.Name)}
    if isinstance(n,ast.AnnAssign): return {n.target.id}
    return set()
cut=[];segments=[];used=set()
for i,n in enumerate(tree.body):
    if bound(n)&set(names):
        start=min([n.lineno,*[d.lineno for d in getattr(n,'decorator_list',[])]]); end=n.end_lineno
        nxt=tree.body[i+1] if i+1<len(tree.body) else None
        if isinstance(nxt,ast.Expr) and isinstance(nxt.value,ast.Constant) and isinstance(nxt.value.value,str): end=nxt.end_lineno
        while start>1 and lines[start-2].startswith('#'): start-=1
        cut.append((start,end)); segments.append(''.join(lines[start-1:end]))
        used|={x.id for x in ast.walk(n) if isinstance(x,ast.Name)}
imports={}
for n in tree.body:
    if isinstance(n,ast.ImportFrom):
        for x in n.names: imports[x.asname or x.name]=f"from {n.module} import {x.name}"+(f" as {x.asname}" if x.asname else '')
    elif isinstance(n,ast.Import):
        for x in n.names: imports[x.asname or x.name]=f"import {x.name}"+(f" as {x.asname}" if x.asname else '')
left={m for n in tree.body for m in bound(n)}-set(names)
if used&left: print('needs from',a,':',used&left)
need=[imports[u] for u in sorted(used) if u in imports and not imports[u].startswith(f'from {b} ')]
for s,e in reversed(cut): del lines[s-1:e]
pa.write_text(''.join(lines))
def rewrite(p,keep_b):
    t=p.read_text()
    if f'from {a} import' not in t: return False
    ls=t.splitlines(keepends=True)
    for n in reversed([n for n in ast.walk(ast.parse(t)) if isinstance(n,ast.ImportFrom) and n.module==a]):
        mine=[x for x in n.names if x.name in names]; rest=[x for x in n.names if x.name not in names]
        if not mine: continue
        f=lambda m,xs: ' '*n.col_offset+f"from {m} import "+', '.join(x.name+(f' as {x.asname}' if x.asname else '') for x in xs)+'\n'
        ls[n.lineno-1:n.end_lineno]=([f(a,rest)] if rest else [])+([f(b,mine)] if keep_b else [])
    new=''.join(ls)
    if new!=t: p.write_text(new); return True
changed=[pa,pb]
for f in subprocess.run(['git','ls-files','*.py'],capture_output=True,text=True).stdout.split():
    p=R/f
    if p.exists() and p!=pa and rewrite(p,p!=pb): changed.append(p)
t=pb.read_text(); d=ast.parse(t).body[0]
ls=t.splitlines(keepends=True)
# imports of what stays in A but was used: by hand
back=f"from {b} import {', '.join(names)}\n"
still={x.id for n in ast.parse(pa.read_text()).body for x in ast.walk(n) if isinstance(x,ast.Name)}&set(names)
if still:
    q=pa.read_text(); dd=ast.parse(q).body[0]; l2=q.splitlines(keepends=True); l2.insert(dd.end_lineno,f"\nfrom {b} import {', '.join(sorted(still))}\n"); pa.write_text(''.join(l2))
ls.insert(d.end_lineno,'\n'+'\n'.join(need)+'\n')
pb.write_text(''.join(ls).rstrip('\n')+'\n\n\n'+'\n\n'.join(segments))
py=[str(p) for p in changed]
for c in (['check','-q','--select','I,F401','--fix',*py],['format','-q',*py]): subprocess.run(['.venv/bin/ruff',*c])
print(len(changed),'files')
