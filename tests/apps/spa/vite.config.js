// React's JSX by esbuild alone: no plugin.
export default { esbuild: { jsx: 'automatic' }, build: { assetsInlineLimit: 0 }, logLevel: 'warn' };
