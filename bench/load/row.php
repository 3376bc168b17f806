<?php
// A row by its key as JSON, over a connection that the process keeps.
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$database = new mysqli('p:localhost', 'larder', 'geheim', 'shop', 0, __DIR__ . '/../application/socket');
$query = $database->prepare('select id, name from pages where id = ?');
$id = ltrim(strtok($_SERVER['REQUEST_URI'], '?'), '/');
$query->bind_param('s', $id);
$query->execute();
$rows = json_encode($query->get_result()->fetch_all(MYSQLI_ASSOC));
header('Content-Type: application/json');
header('Content-Length: ' . strlen($rows));
header('Cache-Control: no-store');
echo $rows;
