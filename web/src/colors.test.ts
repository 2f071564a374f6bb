/** Palettes under color vision deficiency: any two colors of a palette are distinct, and names are readable on each. */

import { expect, test } from "vitest";
import { AREAS, canvas, CAUSES, LAYERS } from "./colors";
import { HEAT } from "./flame/coloring";

type Three = readonly [number, number, number];

/** Matrices over linear red, green and blue for eyes without one of the three cones (Machado, Oliveira and Fernandes, 2009). */
const SIGHTS: Readonly<Record<string, readonly [Three, Three, Three]>> = {
  all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

function linear(hex: string): Three {
  const channel = (at: number) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [channel(1), channel(3), channel(5)];
}

const luminance = ([red, green, blue]: Three) => 0.2126 * red + 0.7152 * green + 0.0722 * blue;

function seen(color: Three, sight: readonly [Three, Three, Three]): Three {
  const response = (row: Three) => Math.min(Math.max(row[0] * color[0] + row[1] * color[1] + row[2] * color[2], 0), 1);
  return [response(sight[0]), response(sight[1]), response(sight[2])];
}

/** In CIELAB, in which as far apart is about as different. */
function lab([red, green, blue]: Three): Three {
  const root = (part: number) => (part > 0.008856 ? Math.cbrt(part) : 7.787 * part + 16 / 116);
  const x = root((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505);
  const y = root(luminance([red, green, blue]));
  const z = root((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const colorDistance = (a: Three, b: Three) => Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);

const fills = (palette: Readonly<Record<string, { readonly fill: string }>>) => Object.values(palette).map(({ fill }) => fill);
const PALETTES = { layers: fills(LAYERS), areas: fills(AREAS), causes: fills(CAUSES), heat: HEAT };
/** Smallest difference; two adjacent colors with a difference of 2.3 are just distinct. */
const LEAST = 10;

test.each(Object.entries(PALETTES))("%s are distinct with every kind of color vision", (_, palette) => {
  for (const [sight, matrix] of Object.entries(SIGHTS)) {
    const all = palette.map((hex) => lab(seen(linear(hex), matrix)));
    all.forEach((one, at) => all.slice(0, at).forEach((other, before) => expect(colorDistance(one, other), `${palette[at]} and ${palette[before]}, ${sight}`).toBeGreaterThanOrEqual(LEAST)));
  }
});

test("colors of areas differ more than two shades of one color", () => {
  const all = PALETTES.areas.map((hex) => lab(linear(hex)));
  all.forEach((one, at) => all.slice(0, at).forEach((other, before) => expect(colorDistance(one, other), `${PALETTES.areas[at]} and ${PALETTES.areas[before]}`).toBeGreaterThanOrEqual(20)));
});

test("names can be read on each of them", () => {
  const ink = luminance(linear(canvas.value.label));
  for (const fill of Object.values(PALETTES).flat()) {
    expect((luminance(linear(fill)) + 0.05) / (ink + 0.05), fill).toBeGreaterThanOrEqual(4.5);
  }
});
