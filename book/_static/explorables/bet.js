// Two training curves, one of them of a wrong gradient: the reader bets, and asks three judges.
"use strict";

explore("bet", ({ figure, stage, controls, say }) => {
  const { make, draw, number, power, button, still } = explore;
  const { right, wrong, errors } = JSON.parse(figure.querySelector("script").textContent);
  const CURVES = { A: right, B: wrong }, SECONDS = 3;
  const answer = document.querySelector("#explorable-bet + details");
  answer.open = false;

  const WIDTH = stage.clientWidth < 500 ? 340 : 700, HEIGHT = 230, LEFT = 34, RIGHT = WIDTH - 78, BOTTOM = 200;
  const drawing = explore.canvas(stage, WIDTH, HEIGHT,
    `Loss of two encoders against the step. Both fall alike; A ends at ${number(right.at(-1), 3)}, B at ${number(wrong.at(-1), 3)}.`);
  const X = (n) => LEFT + ((RIGHT - LEFT) * n) / (right.length - 1);
  const Y = (loss) => BOTTOM - (BOTTOM - 12) * (loss / 1.25);
  for (const loss of [0, 0.5, 1]) explore.level(drawing, LEFT, RIGHT, Y(loss), loss);
  draw(drawing, "text", { x: RIGHT, y: BOTTOM + 20, "text-anchor": "end", class: "soft" }, "step 300");
  draw(drawing, "text", { x: LEFT + 6, y: 24, class: "soft" }, "loss");
  const names = {};
  Object.entries(CURVES).forEach(([letter, losses], n) => {
    draw(drawing, "path", { class: `curve ${letter}`, pathLength: 1,
      d: losses.map((loss, k) => `${k ? "L" : "M"}${X(k).toFixed(1)} ${Y(loss).toFixed(1)}`).join("") });
    names[letter] = draw(drawing, "text", { class: `name ${letter}`, x: RIGHT + 8, y: Y(losses.at(-1)) - 8 + 22 * n },
      `${letter} ${number(losses.at(-1), 3)}`);
  });
  drawing.style.setProperty("--seconds", `${still() ? 0 : SECONDS}s`);

  const bet = (letter) => {
    buttons.forEach((one) => { one.hidden = true; });
    judges.hidden = false;
    answer.open = true;
    names.A.textContent = "A, right";
    names.B.textContent = "B, wrong";
    say(`${letter === "B" ? "You have found it" : "The other one"}: B is wrong, and its loss is the lower one. Which judge notices?`);
    judges.querySelector("button").focus();
  };
  const buttons = Object.keys(CURVES).map((letter) => button(controls, `${letter} is wrong`, () => bet(letter)));

  const judges = stage.appendChild(make("div", { className: "judges", hidden: true }));
  const judge = (label, found, finds) => {
    const verdict = make("span"), row = judges.appendChild(make("p"));
    button(row, label, () => {
      verdict.textContent = `${found ? "✗ found" : "missed"}: ${finds}`;
      verdict.className = found ? "alarm" : "";
      say(`${label}: ${verdict.textContent}.`);
    });
    row.append(verdict);
  };
  judge("The curve", false, `${number(wrong.at(-1), 3)} against ${number(right.at(-1), 3)}`);
  judge("A check of a new model", false, `error ${power(errors.new)}`);
  judge("A check at a random point", true, `error ${number(errors.random)}`);
  say(`After 300 steps A ends at ${number(right.at(-1), 3)}, B at ${number(wrong.at(-1), 3)}.`);
});
