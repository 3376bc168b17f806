// The beginning: what the page looks like, and the application in its place.
import { options, render } from 'preact';
import 'uplot/dist/uPlot.min.css';
import './style/base.css';
import './style/shell.css';
import './style/parts.css';
import './style/views.css';
import './style/touch.css';
import { App } from './app';
import { apply } from './theme';

// Effects run before the browser goes on: a machine under load draws late, and a listener that waited for the drawing would miss what
// happens until then (a key, a change of the address, a field that is written in).
options.requestAnimationFrame = queueMicrotask;

apply();
render(<App />, document.getElementById('page')!);
