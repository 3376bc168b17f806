// How the page is built, and how it is developed: `LARDER=http://127.0.0.1:9180 npx vite` serves it anew at each change, over
// the API of the larder that runs there.
import { defineConfig } from 'vite';

const larder = process.env.LARDER ?? 'http://127.0.0.1:9180';
// The admin answers only requests that name itself as their host.
const api = { target: larder, changeOrigin: true, headers: { origin: larder } };

export default defineConfig({
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  server: { proxy: { '/api': api, '/cache': api } },
  build: {
    target: 'es2022',
    modulePreload: false,
    // Everything is a file of its own: the page's policy allows nothing inline.
    assetsInlineLimit: 0,
    // build.mjs empties it, but for the note that git keeps.
    emptyOutDir: false,
    reportCompressedSize: false,
  },
});
