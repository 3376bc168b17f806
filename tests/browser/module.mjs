// A module of the page, for a test without a browser: what builds the page makes JavaScript of it.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ui = join(dirname(fileURLToPath(import.meta.url)), '../../ui');
const { transformSync } = createRequire(createRequire(join(ui, 'package.json')).resolve('vite'))('esbuild');

/** The exports of a file of `ui/src` that imports nothing but types. */
export function module(name) {
  const { code } = transformSync(readFileSync(join(ui, 'src', name), 'utf8'), { loader: 'ts', format: 'esm' });
  return import(`data:text/javascript;base64,${Buffer.from(code).toString('base64')}`);
}
