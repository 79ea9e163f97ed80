"""Circles that a mapping would make: circles.py PACKAGE... (all that are given are folded)."""
import ast,sys
from pathlib import Path
sys.path.insert(0, __file__.rpartition('/')[0]); import mapping
new={}
for p in sys.argv[1:]:
    for n,olds in mapping.PACKAGES[p].items():
        for o in olds: new[o]=n
mods={}
for f in Path('retrier').rglob('*.py'):
    parts=list(f.with_suffix('').parts); parts=parts[:-1] if parts[-1]=='__init__' else parts
    mods['.'.join(parts)]=f
for p in sys.argv[1:]:
    for n,olds in mapping.PACKAGES[p].items():
        for o in olds:
            if o not in mods: print('missing',o)
base=sys.argv[1]
left=[m for m in mods if m.startswith(f'retrier.{base}.') and m not in new]
print('unchanged', ' '.join(sorted(left)))
g={}; why={}
for m,f in mods.items():
    a=new.get(m,m)
    for n in ast.walk(ast.parse(f.read_text())):
        if isinstance(n,ast.ImportFrom) and n.module:
            for x in n.names:
                t=f'{n.module}.{x.name}'
                t=t if t in mods else n.module
                if t in mods and m!=t:
                    b=new.get(t,t)
                    if a!=b: g.setdefault(a,set()).add(b); why.setdefault((a,b),set()).add(f'{m}->{t}({x.name})')
sys.setrecursionlimit(10000)
idx={};low={};st=[];on=set();out=[]
def go(v):
    idx[v]=low[v]=len(idx); st.append(v); on.add(v)
    for w in g.get(v,()):
        if w not in idx: go(w); low[v]=min(low[v],low[w])
        elif w in on: low[v]=min(low[v],idx[w])
    if low[v]==idx[v]:
        c=[]
        while True:
            w=st.pop(); on.discard(w); c.append(w)
            if w==v: break
        if len(c)>1: out.append(c)
for v in list(g):
    if v not in idx: go(v)
for c in out:
    print('CIRCLE',sorted(c))
    for a in c:
        for b in c:
            if (a,b) in why: print('   ',a,'->',b,sorted(why[a,b])[:6])
