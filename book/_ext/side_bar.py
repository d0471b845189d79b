"""The list of pages in the side bar, made once for each folder: pages differ in which is marked."""

import re

TAG = re.compile(r"<(/?)(ul|li|a)\b[^>]*>")
MARK = re.compile(r' class="current"|(?<=class=")current |(?<=\d) current(?=")')


def setup(app):
    lists = {}

    def share_the_list(app, page, template, context, doctree):
        make = context["toctree"]
        folder, _, name = page.rpartition("/")

        def toctree(**options):
            key = folder, *sorted(options.items())
            if key not in lists:
                lists[key] = unmarked(make(**options), name)
            return marked(lists[key], name)

        context["toctree"] = toctree

    app.connect("builder-inited", lambda app: lists.clear())
    app.connect("html-page-context", share_the_list)
    return {"parallel_read_safe": True}


def unmarked(html, name):
    """A page's list without its marks, and with a link to the page itself."""
    return MARK.sub("", html).replace('href="#"', f'href="{name}.html"')


def marked(html, name):
    """The list with the marks that Sphinx gives to a page of the folder, and to what it is in."""
    around = []
    for tag in TAG.finditer(html):
        if tag[1]:
            around.pop()
            continue
        around.append(tag)
        if f'href="{name}.html"' in tag[0]:
            break
    for tag in reversed(around):
        html = html[: tag.start()] + as_current(tag[0], tag[2]) + html[tag.end() :]
    return html


def as_current(tag, kind):
    if kind == "ul":
        return '<ul class="current">'
    if kind == "li":
        return tag.replace('">', ' current">')
    return re.sub('href="[^"]*"', 'href="#"', tag.replace('class="', 'class="current '))
