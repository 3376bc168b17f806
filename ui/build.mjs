// Builds the page into dist/: the files, and beside each its gzip and brotli, which larder sends as they are.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'vite';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');

for (const name of readdirSync(dist)) {
  if (name !== '.gitignore') rmSync(join(dist, name), { recursive: true });
}
await build({ root, logLevel: 'warn' });

let total = 0;
const files = readdirSync(dist, { recursive: true }).filter((name) => statSync(join(dist, name)).isFile());
for (const name of files.filter((it) => it !== '.gitignore')) {
  const path = join(dist, name);
  const bytes = readFileSync(path);
  const gzip = gzipSync(bytes, { level: 9 });
  writeFileSync(`${path}.gz`, gzip);
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
  writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params }));
  total += gzip.length;
}
console.log(`page: ${(total / 1024).toFixed(1)} KiB compressed`);
