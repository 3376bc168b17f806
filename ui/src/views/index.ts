// Every view: what it is called, its icon, and the key behind `g`.
import type { View } from '../app';
import { Access } from './access';
import { Config } from './config';
import { Explain } from './explain';
import { Live } from './live';
import { Nodes } from './nodes';
import { Objects } from './objects';
import { Overview } from './overview';
import { Top } from './top';
import { Traces } from './traces';
import { Why } from './why';

export const VIEWS: View[] = [
  { name: 'overview', title: 'Overview', icon: 'overview', key: 'o', draw: Overview },
  { name: 'objects', title: 'Objects', icon: 'objects', key: 'b', draw: Objects },
  { name: 'explain', title: 'Explain', icon: 'explain', key: 'e', draw: Explain },
  { name: 'why', title: 'Why', icon: 'why', key: 'w', draw: Why },
  { name: 'live', title: 'Live', icon: 'live', key: 'l', draw: Live },
  { name: 'top', title: 'Top', icon: 'top', key: 't', draw: Top },
  { name: 'traces', title: 'Traces', icon: 'traces', key: 'r', draw: Traces },
  { name: 'nodes', title: 'Nodes', icon: 'nodes', key: 'n', draw: Nodes, ofFleet: true },
  { name: 'config', title: 'Configuration', icon: 'config', key: 'c', draw: Config },
  { name: 'access', title: 'Access', icon: 'access', key: 'a', draw: Access, needs: 'admin' },
];
