// Personal pages, as people write them: Express with express-session and the defaults of both, saying nothing of caches. The same paths
// as tests/apps/sessions.py. Prints its address, then serves until it is killed.
import { createRequire } from 'node:module';

// Where tests/install has put the packages.
const require = createRequire(`${process.argv[2]}/`);
const express = require('express');
const session = require('express-session');

const app = express();
let seen = 0;
let status = 0;
// The store in memory warns that it is not for production.
console.error = () => {};
app.use(session({ secret: 'for a test', resave: false, saveUninitialized: false }));

const text = (request) => {
  const token = (request.get('Authorization') ?? '').replace(/^Bearer /, '');
  const name = request.session.name ?? (token || 'stranger');
  return `<h1>The account of ${name.padEnd(9, '.')}</h1>`;
};

app.get('/count', (_, response) => response.set('Cache-Control', 'no-store').json({ seen }));
app.get('/fail', (request, response) => {
  status = Number(request.query.status ?? 0);
  response.set('Cache-Control', 'no-store').send('');
});
app.get('/login', (request, response) => {
  request.session.name = request.query.name;
  response.set('Cache-Control', 'no-store').send('');
});
app.use((_, response, next) => {
  seen += 1;
  if (status) response.status(status).send('something went wrong');
  else next();
});
app.get('/silent', (request, response) => {
  response.end(text(request));
});
app.get('/tagged', (request, response) => {
  response.vary('Accept-Encoding').send(text(request));
});
app.get('/dated', (request, response) => {
  response.set('Last-Modified', 'Thu, 01 Jan 2015 00:00:00 GMT').send(text(request));
});
app.get('/zero', (request, response) => {
  response.set('Cache-Control', 'max-age=0').send(text(request));
});
app.get('/file', (request, response) => {
  response.set('Expires', 'Thu, 01 Jan 1970 00:00:00 GMT').send(text(request));
});

const server = app.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
