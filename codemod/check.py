"""Every import of retrier in every Python file names something that is there; also `module.name` uses, and dotted or file paths in texts."""
import ast, re, subprocess
from pathlib import Path
R = Path.cwd()
def top(path, cache={}):
    if path in cache: return cache[path]
    names=set()
    t=ast.parse(path.read_text())
    for n in ast.walk(t):
        if isinstance(n,(ast.FunctionDef,ast.ClassDef,ast.AsyncFunctionDef)): names.add(n.name)
        elif isinstance(n,ast.Name) and isinstance(n.ctx,ast.Store): names.add(n.id)
        elif isinstance(n,(ast.Import,ast.ImportFrom)): names|={(a.asname or a.name.split('.')[0]) for a in n.names}
    cache[path]=names
    return names
def find(mod):
    b=R/mod.replace('.','/')
    if (b/'__init__.py').exists(): return b/'__init__.py'
    p=b.with_suffix('.py')
    return p if p.exists() else None
bad=[]
files=[R/f for f in subprocess.run(['git','ls-files'],capture_output=True,text=True).stdout.split('\n') if f]
for f in files:
    if not f.exists(): continue
    if f.suffix=='.py':
        t=ast.parse(f.read_text()); spaces={}
        for n in ast.walk(t):
            if isinstance(n,ast.ImportFrom) and n.module and n.module.split('.')[0]=='retrier':
                m=find(n.module)
                for a in n.names:
                    sub=find(f'{n.module}.{a.name}')
                    if sub: spaces[a.asname or a.name]=sub
                    elif m is None and not (R/n.module.replace('.','/')).is_dir(): bad.append((f,n.lineno,n.module))
                    elif m is None or a.name not in top(m): bad.append((f,n.lineno,f'{n.module}:{a.name}'))
            elif isinstance(n,ast.Import):
                for a in n.names:
                    if a.name.startswith('retrier.') and not find(a.name): bad.append((f,n.lineno,a.name))
        stored={n.id for n in ast.walk(t) if isinstance(n,ast.Name) and isinstance(n.ctx,ast.Store)}|{n.arg for n in ast.walk(t) if isinstance(n,ast.arg)}
        for n in ast.walk(t):
            if isinstance(n,ast.Attribute) and isinstance(n.value,ast.Name) and n.value.id in spaces and n.value.id not in stored:
                if n.attr not in top(spaces[n.value.id]) and not find(str(spaces[n.value.id].relative_to(R).with_suffix('')).replace('/','.').removesuffix('.__init__')+'.'+n.attr): bad.append((f,n.lineno,f'{n.value.id}.{n.attr}'))
    if f.suffix in {'.py','.md','.toml','.yaml','.html','.js'}:
        try: s=f.read_text()
        except Exception: continue
        for i,l in enumerate(s.splitlines(),1):
            for p in re.findall(r'\bretrier/[\w/]+\.py\b',l):
                if not (R/p).exists(): bad.append((f,i,p))
            for p in re.findall(r'(?<![\w./-])(?:domain|policy|events|settings|worker|integrations|demo|app|api|web|cli|store|transport|processor|ingestion)/[\w/]+\.py\b',l):
                if not (R/'retrier'/p).exists(): bad.append((f,i,p))
            for p in re.findall(r'(?<![\w./-])retrier\.(?:domain|policy|events|settings|worker|integrations|demo|app|api|web|cli|store|transport|processor|ingestion)(?:\.\w+)+',l):
                parts=p.split('.')
                ok=False
                for k in range(len(parts),1,-1):
                    m=find('.'.join(parts[:k]))
                    if m: ok = k==len(parts) or parts[k] in top(m); break
                if not ok and not (R/p.replace('.','/')).is_dir(): bad.append((f,i,p))
for f,i,w in bad: print(f.relative_to(R),i,w)
