// The editor, as esbuild bundles it: liveEditor.edit(parent, text, label, change, run).
import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, keymap, lineNumbers } from "@codemirror/view";
import { tagHighlighter, tags } from "@lezer/highlight";

// The classes of Pygments, so that an editor has the colours of the listings, in light and dark.
const colours = tagHighlighter(
  Object.entries({
    k: [tags.keyword, tags.operatorKeyword, tags.bool, tags.null],
    s: [tags.string],
    m: [tags.number],
    c: [tags.comment],
    o: [tags.operator],
  }).map(([name, tag]) => ({ tag, class: name })),
);

export const edit = (parent, text, label, change, run) =>
  new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        closeBrackets(),
        indentUnit.of("    "),
        EditorState.tabSize.of(4),
        python(),
        syntaxHighlighting(colours),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) change(update.state.doc.toString());
        }),
        keymap.of([
          { key: "Mod-Enter", run: () => (run(), true) },
          indentWithTab, // after Escape, Tab leaves the editor
          ...closeBracketsKeymap,
          ...defaultKeymap,
          ...historyKeymap,
        ]),
      ],
    }),
  });

export const replace = (view, text) =>
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
