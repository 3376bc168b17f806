// The beginning: what the page looks like, and the application in its place.
import { render } from 'preact';
import 'uplot/dist/uPlot.min.css';
import './style/base.css';
import './style/shell.css';
import './style/parts.css';
import './style/views.css';
import './style/touch.css';
import { App } from './app';
import { apply } from './theme';

apply();
render(<App />, document.getElementById('page')!);
