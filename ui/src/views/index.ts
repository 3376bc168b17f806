// Every view: what it is called, its icon, and the key behind `g`.
import type { View } from '../app';
import { Overview } from './overview';

export const VIEWS: View[] = [
  { name: 'overview', title: 'Overview', icon: 'overview', key: 'o', draw: Overview },
];
