// Every view: what it is called, its icon, and the key behind `g`. The overview is a part of the page; the others are loaded when
// they are opened.
import type { View } from '../app';
import { Overview } from './overview';

export const VIEWS: View[] = [
  { name: 'overview', title: 'Overview', icon: 'overview', key: 'o', draw: Overview },
  { name: 'objects', title: 'Objects', icon: 'objects', key: 'b', load: async () => (await import('./objects')).Objects },
  { name: 'explain', title: 'Explain', icon: 'explain', key: 'e', load: async () => (await import('./explain')).Explain },
  { name: 'why', title: 'Why', icon: 'why', key: 'w', load: async () => (await import('./why')).Why },
  { name: 'live', title: 'Live', icon: 'live', key: 'l', load: async () => (await import('./live')).Live },
  { name: 'top', title: 'Top', icon: 'top', key: 't', load: async () => (await import('./top')).Top },
  { name: 'traces', title: 'Traces', icon: 'traces', key: 'r', load: async () => (await import('./traces')).Traces },
  { name: 'nodes', title: 'Nodes', icon: 'nodes', key: 'n', load: async () => (await import('./nodes')).Nodes, ofFleet: true },
  { name: 'config', title: 'Configuration', icon: 'config', key: 'c', load: async () => (await import('./config')).Config },
  { name: 'access', title: 'Access', icon: 'access', key: 'a', load: async () => (await import('./access')).Access, needs: 'admin' },
  { name: 'help', title: 'Help', icon: 'help', key: 'h', load: async () => (await import('./help')).HelpView, isHelp: true },
];
