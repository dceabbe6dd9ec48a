"""The style of a page of advice: colours for light and dark, figures, and tables that fold on a telephone.

The colours of classes are those of Okabe and Ito, lighter in the dark.
"""

__all__ = ["STYLE"]

STYLE = (
    """
:root{color-scheme:light dark;
--ink:#1b1f24;--soft:#57606a;--page:#fff;--panel:#f6f8fa;--line:#d0d7de;--warn:#fff8e5;--edge:#e69f00;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#b58900;--c5:#56b4e9}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa4af;--page:#0d1117;--panel:#161b22;
--line:#30363d;
--warn:#2b2411;--c0:#4aa8e0;--c1:#ff8c42;--c2:#2fc79a;--c3:#e2a1c6;--c4:#e6c34a;--c5:#8fd0f5}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:1120px;margin:0 auto;padding:16px}
h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}h3{font-size:.85rem;margin:0;
color:var(--soft);
font-weight:600}
.verdict{font-size:1.15rem;max-width:60rem}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(240px,1fr));gap:12px}
.card{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:12px}
.card p{margin:.25rem 0 0}
.warned{background:var(--warn);border-left:4px solid var(--edge);padding:4px 16px;margin-top:16px;
border-radius:4px}
.warned h2{margin-top:.5rem}
figure{margin:12px 0;max-width:520px}figure.wide{max-width:600px}figcaption{color:var(--soft);
font-size:.85rem}
.grid-of-figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:8px}
svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}svg text.axis{fill:var(--ink)}
svg text.name{fill:var(--ink);font-weight:600}
svg .grid{stroke:var(--line);stroke-width:1}svg .rule{stroke:var(--ink);stroke-width:1.2;
stroke-dasharray:5 4;fill:none}
svg .curve{fill:none;stroke-width:2.2}svg .dashed{stroke-dasharray:6 5}
svg .seen{fill:var(--soft);opacity:.13}svg .band{opacity:.25;stroke:none}svg .fill{opacity:.85;stroke:none}
svg .mark{stroke:var(--soft);stroke-width:2.5}svg .dot{fill:var(--page)}svg .best{stroke:var(--c2)}
"""
    + "".join(
        f"svg .c{i}{{stroke:var(--c{i});fill:var(--c{i})}}svg .curve.c{i}{{fill:none}}"
        f".key.c{i}{{background:var(--c{i})}}\n"
        for i in range(6)
    )
    + """
svg .others{stroke:var(--soft);fill:var(--soft)}svg .curve.others{fill:none}
.key.others{background:var(--soft)}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin:0 .3em 0 .8em}
table{border-collapse:collapse;width:100%;font-size:.9rem;margin:8px 0}
th,td{text-align:left;padding:6px 10px;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600}
summary{cursor:pointer;color:var(--soft);padding:6px 10px}
code{background:var(--panel);padding:1px 4px;border-radius:4px;overflow-wrap:anywhere}
@media (max-width:760px){thead{display:none}tr{display:block;border:1px solid var(--line);border-radius:8px;
margin:8px 0;padding:4px 8px}td{display:flex;justify-content:space-between;gap:16px;
border-bottom:1px dotted var(--line)}
td:last-child{border-bottom:0}td::before{content:attr(data-label);color:var(--soft);flex:0 0 45%}
td:first-child{font-weight:700}}
"""
)
